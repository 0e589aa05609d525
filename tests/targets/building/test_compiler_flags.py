"""Which flags a spec may give to compilers, and in what surroundings these run."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from opsplice import cli
from opsplice.common.errors import OpspliceError
from opsplice.common.store import Store
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.artifacts.artifact import ArtifactRequest, CpuTarget
from opsplice.targets.backends import cpu
from opsplice.targets.build import programs, toolchains
from opsplice.targets.build.compiler_flags import checked
from opsplice.targets.plugins import plugin_build
from tests.environment import under

HERE = Path("/here")

REFUSED = re.findall(
    r"\S+",
    """
    -fplugin=x.so -fplugin-arg-x-y -fpass-plugin=x.so -load -Xclang -mllvm -mmlir --save-temps -save-temps=cwd
    -save-temps=obj -o -ofile -wrapper -B -B/tmp -specs=x --specs=x -fuse-ld=/tmp/ld -fuse-ld=lld --ld-path=x -MF
    -MD -MMD -MT -MJ -dumpdir -dD -dumpbase -fdump-tree-all -fdump-rtl-all=x -fdump-passes -fprofile-generate
    -fprofile-use=x -fprofile-dir=x -fprofile-instr-use=x -ftime-trace=x -ftime-trace -fsave-optimization-record
    -foptimization-record-file=x -fcrash-diagnostics-dir=x -fstack-usage -fcallgraph-info -fmodules
    -fmodules-cache-path=x -fmodule-file=x -fmodule-map-file=x -fprebuilt-module-path=x -fsanitize-ignorelist=x
    -fauto-profile=x -fopt-info-all=x -fdiagnostics-format=sarif-file -fdiagnostics-add-output=x
    -fmacro-prefix-map=a=b -frandomize-layout-seed-file=x -fxray-always-instrument=x -fembed-offload-object=x
    -fthinlto-index=x -flto -fopenmp-targets=x -fsyntax-only -S -E -c -x -Xlinker -Xassembler -Xpreprocessor
    -Wl,-plugin,x.so -Wl,@x -Wa,-a=x -Wp,-MD,x -imacros -iprefix -isysroot --sysroot=x --gcc-toolchain=x
    -resource-dir -ccc-install-dir --config --config=x -print-file-name=x -no-canonical-prefixes -gsplit-dwarf
    -serialize-diagnostics --serialize-diagnostics -coverage --coverage -ftest-coverage -pg -ivfsoverlay
    -include-pch -emit-pch -ccbin=x -keep --keep-dir=x -odir --options-file -optf -Xcompiler --compiler-bindir=x
    -fatbin -cubin --objdir-as-tempdir -t x.c file.o --depfile -dump-intermediates -dump-repro -load-repro
    -extract-repro -save-core-module -r -pass-through -default-downstream-compiler -V --vn -H -depfile -l -L -l:x.so
    -Lx
    """,
)


@pytest.mark.parametrize("kind", ["C", "CUDA", "GLSL", "Slang", "WGSL"])
def test_flags_that_reach_files_or_programs_are_refused(kind):
    for flag in REFUSED:
        with pytest.raises(OpspliceError, match="is not one that a spec may give"):
            checked([flag, "value"], kind, HERE)


@pytest.mark.parametrize("kind", ["C", "library", "CUDA", "GLSL", "Slang", "WGSL"])
@pytest.mark.parametrize("flags", [["@file"], ["-D", "@file"], ["-include", "@file"], ["-I", "@file"], ["-e", "@f"]])
def test_files_of_flags_are_refused_wherever_they_stand(kind, flags):
    with pytest.raises(OpspliceError, match="is not one that a spec may give"):
        checked(flags, kind, HERE)


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        ("C", "-O3 -Ofast -mavx2 -march=armv8-a+sve -mprefer-vector-width=512 -ffast-math -fno-math-errno -g -w -Wall"),
        ("C", "-ffp-contract=fast -std=gnu17 -DX='a b' -D Y=1 -UZ -Wno-error=unused -fno-builtin-memset -fopenmp-simd"),
        (
            "C",
            "--param max-unroll-times=4 --param=inline-unit-growth=50 -fvisibility=hidden -pthread -include a.h",
        ),
        ("library", "-lopenblas -Wl,-rpath,/opt/lib -Wl,--as-needed -O2"),
        ("CUDA", "--use_fast_math -use_fast_math -maxrregcount 64 --maxrregcount=64 -lineinfo --fmad=false -O3"),
        ("CUDA", "--expt-relaxed-constexpr -std=c++17 -DN=4 --define-macro=N=4"),
        ("GLSL", "-DN=4 -g -Os --target-env vulkan1.2 --target-env=vulkan1.2 -fentry-point=main --source-entrypoint f"),
        ("Slang", "-DN=4 -O2 -matrix-layout-row-major -capability spirv_1_5 -fp-mode fast -fvk-use-scalar-layout"),
        ("WGSL", "--keep-coordinate-space"),
    ],
)
def test_flags_that_say_how_code_is_made_pass(kind, flags):
    import shlex

    words = shlex.split(flags)
    assert checked(words, kind, HERE) == tuple(words)


def test_paths_in_flags_start_at_the_folder(tmp_path):
    (tmp_path / "first.h").write_text("")
    flags = ["-Iinc", "-I", "inc", "-iquote", "/abs", "-isystem", "sys", "-include", "first.h", "-include", "math.h"]
    assert checked(flags, "C", tmp_path) == (
        *(f"-I{tmp_path}/inc", f"-I{tmp_path}/inc", "-iquote/abs", f"-isystem{tmp_path}/sys"),
        *("-include", f"{tmp_path}/first.h", "-include", "math.h"),
    )
    assert checked(["-Llib", "-L", "lib"], "library", tmp_path) == (f"-L{tmp_path}/lib",) * 2


@pytest.mark.parametrize("flag", ["-D", "-I", "-include"])
def test_a_flag_without_its_value_is_an_error(flag):
    with pytest.raises(OpspliceError, match=f"the compiler flag {flag} lacks"):
        checked([flag], "C", HERE)


def test_near_flags_are_named():
    with pytest.raises(OpspliceError) as error:
        checked(["-ffast-maths"], "C", HERE)
    assert "did you mean -ffast-math?" in error.value.hint


def test_refused_flags_stop_a_build_that_was_done_before(tmp_path):
    source = tmp_path / "k.c"
    source.write_text("void k(void) {}\n")
    for _ in range(2):
        with pytest.raises(OpspliceError, match="--save-temps is not one that a spec may give"):
            cpu.resolve(ArtifactRequest(source, ("k",), flags=("--save-temps",)), CpuTarget("x86_64"), Store())


@pytest.mark.parametrize("name", toolchains.NAMES)
def test_compilers_run_in_a_folder_of_their_own_and_find_what_stands_beside_a_source(tmp_path, monkeypatch, name):
    compiler = toolchains.find(name)
    if compiler is None:
        pytest.skip(f"{name} is not here ({toolchains.HOW_TO_GET[name]})")
    folder = tmp_path / "source"
    (folder / "inc").mkdir(parents=True)
    (folder / "inc" / "deep.h").write_text('#include "../beside.h"\n')
    (folder / "beside.h").write_text("#define BESIDE 1\n")
    (folder / "table.bin").write_bytes(b"abcd")
    (folder / "k.c").write_text(
        '#include <deep.h>\n__asm__(".section .rodata\\ntable: .incbin \\"table.bin\\"\\n.text\\n");\n'
        "#ifndef BESIDE\n#error\n#endif\nvoid k(void) {}\n"
    )
    seen = []
    popen = subprocess.Popen

    def noted(command, **options):
        seen.append((options["cwd"], options["env"]["TMPDIR"]))
        return popen(command, **options)

    monkeypatch.setattr(subprocess, "Popen", noted)
    monkeypatch.chdir(tmp_path)
    request = ArtifactRequest(Path("source/k.c"), ("k",), flags=("-Iinc",))
    assert under({"OPSPLICE_CC": name}, cpu.resolve, request, CpuTarget("x86_64"), Store(tmp_path / "cache")).built
    for cwd, temporaries in seen:
        assert cwd == temporaries
        assert not Path(cwd).exists()
    assert sorted(path.name for path in folder.iterdir()) == ["beside.h", "inc", "k.c", "table.bin"]


@pytest.mark.parametrize("name", toolchains.NAMES)
@pytest.mark.parametrize("source", ["@k.c", "-k.c", "k k.c", "k'$(touch x).c"])
def test_names_of_sources_are_no_flags(tmp_path, monkeypatch, name, source):
    if toolchains.find(name) is None:
        pytest.skip(f"{name} is not here ({toolchains.HOW_TO_GET[name]})")
    monkeypatch.chdir(tmp_path)
    Path(source).write_text("void k(void) {}\n")
    request = ArtifactRequest(Path(source), ("k",))
    assert under({"OPSPLICE_CC": name}, cpu.resolve, request, CpuTarget("x86_64"), Store(tmp_path / "cache")).built
    plugin = plugin_build.Source(Path(source), (), lambda _names: ())
    assert under({"OPSPLICE_CC": name}, plugin_build.build_system, "p", [plugin], CpuTarget(archs.host_arch())).data
    assert {path.name for path in tmp_path.iterdir()} == {source, "cache"}


@pytest.fixture
def slow(tmp_path):
    """A program that takes for ever, as does another one that it starts; both say who they are."""
    program = tmp_path / "slow"
    program.write_text(
        f"#!{sys.executable}\nimport os, subprocess, sys, time\n"
        f"other = subprocess.Popen(['sleep', '100'])\n"
        f"open({str(tmp_path / 'pids')!r}, 'w').write(f'{{os.getpid()}} {{other.pid}}')\ntime.sleep(100)\n"
    )
    program.chmod(0o755)
    return program


def test_a_compiler_that_does_not_end_is_stopped_with_those_that_it_started(slow, monkeypatch):
    monkeypatch.setenv("OPSPLICE_BUILD_TIMEOUT", "1.5")
    begun = time.monotonic()
    with pytest.raises(OpspliceError, match=r"slow has not ended in 1\.5 seconds") as error:
        programs.run_program([str(slow)])
    assert time.monotonic() - begun < 30
    assert "--build-timeout" in error.value.hint
    for pid in (slow.parent / "pids").read_text().split():
        state = Path(f"/proc/{pid}/stat")
        deadline = time.monotonic() + 60
        while state.exists() and ") Z " not in state.read_text() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not state.exists() or ") Z " in state.read_text()


def test_an_interrupt_ends_a_compiler_too(slow):
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 1.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            programs.run_program([str(slow)])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with pytest.raises(ProcessLookupError):
        os.kill(int((slow.parent / "pids").read_text().split()[0]), 0)


@pytest.mark.parametrize("seconds", ["soon", "0", "-1", "nan", "inf"])
def test_a_time_limit_is_a_number_of_seconds(seconds):
    with pytest.raises(OpspliceError, match="is not a number of seconds"):
        under({"OPSPLICE_BUILD_TIMEOUT": seconds}, programs.time_limit)


def test_the_time_limit_is_an_option(tmp_path, monkeypatch, capsys):
    (tmp_path / "k.c").write_text("void k(void) {}\n")
    (tmp_path / "s.splice").write_text('kernel k() -> f32[] { cpu "k.c" as plugin }\n')
    monkeypatch.setenv("OPSPLICE_BUILD_TIMEOUT", "7")
    command = ["kernel", "plugin", str(tmp_path / "s.splice"), "-o", str(tmp_path / "k.so")]
    assert cli.main([*command, "--build-timeout=1e-9"]) == 1
    assert "has not ended in 1e-09 seconds" in capsys.readouterr().err
    assert os.environ["OPSPLICE_BUILD_TIMEOUT"] == "7"
