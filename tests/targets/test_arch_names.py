"""Architectures under their many names."""

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.artifacts.artifact import CpuTarget


@pytest.mark.parametrize(
    ("name", "expected"),
    [("arm64", "aarch64"), ("arm_64", "aarch64"), ("AMD64", "x86_64"), ("x86-64", "x86_64"), ("riscv_64", "riscv64")],
)
def test_usual_names_mean_one_architecture(name, expected):
    assert archs.normalize(name) == expected


def test_unknown_architecture_lists_the_known_ones():
    with pytest.raises(OpspliceError, match="unknown CPU architecture 'mips'") as caught:
        archs.normalize("mips")
    assert "aarch64" in caught.value.hint


@pytest.mark.parametrize("arch", archs.ARCHS)
def test_iree_keys_triples_and_machines_lead_back(arch):
    assert archs.from_iree_key(archs.iree_key(arch)) == arch
    assert archs.of_triple(archs.llvm_triple(arch)) == arch
    assert archs.of_elf_machine(archs.ELF_MACHINE[arch]) == arch


def test_iree_names_aarch64_arm_64():
    assert archs.iree_key("aarch64") == "embedded-elf-arm_64"


def test_other_executable_formats_are_refused():
    with pytest.raises(OpspliceError, match="vulkan-spirv-fb"):
        archs.from_iree_key("vulkan-spirv-fb")


def test_the_last_mention_of_a_feature_wins():
    # IREE's host features mention some twice, with both signs.
    assert archs.parse_features("+avx2,+pku, +sse4.1 ,-pku,-fma") == {"avx2", "sse4.1"}
    assert archs.parse_features("") == frozenset()


def test_what_needs_a_feature_is_off_with_it():
    assert archs.parse_features("+avx,+avx2,+fma,+avx512f,+avx512bw,+popcnt,-avx2") == {"avx", "fma", "popcnt"}
    assert archs.parse_features("+avx512f,+avx512bw,-avx512f,+avx512vl") == {"avx512vl"}


def test_features_are_written_in_llvms_notation():
    assert archs.feature_string({"fma", "avx2"}) == "+avx2,+fma"


def test_target_from_a_set_and_from_text_are_equal():
    assert CpuTarget.of("arm64", {"dotprod"}) == CpuTarget.of("aarch64", "+dotprod,-sve")


def test_the_host_is_known_by_name_when_it_is_supported():
    assert archs.host_arch() in (*archs.ARCHS, None)
    assert not any(feature.startswith(("+", "-")) for feature in archs.host_features())
