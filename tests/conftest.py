"""What all tests share: a private artifact cache, the samples' folder, devices, and the table of approaches."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from importlib import util
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from opsplice import program
from tests import kept, kept_phases, zygote
from tests.approaches import Cells

# The same examples each time, so that what passes once passes always; with OPSPLICE_SOAK=1 new ones are tried.
settings.register_profile("same", derandomize=True)
settings.register_profile("new", print_blob=True)
settings.load_profile("new" if os.environ.get("OPSPLICE_SOAK") else "same")

ROOT = Path(__file__).parent.parent

# Every child process imports the same modules: compiled once, they are kept, whatever the environment says.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell ignores these for what it starts in the background, and so would all that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Garbage may hold devices, whose threads a forked child does not have: it would wait for them for ever.
os.register_at_fork(after_in_child=gc.disable)


@pytest.fixture(autouse=True, scope="session")
def _kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests build into a cache of their own, never the user's; what they built before is there (see `kept`)."""
    temporary = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        temporary = temporary.parent
    folder = kept.folder(temporary)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPSPLICE_CACHE", str(folder / "store"))
        kept.keep_kernels(patch, temporary)
        kept.compile_in_one_thread(patch)
        kept.compile_by_inductor_plainly(patch, temporary)
        kept.count_compiles(patch)
        kept_phases.keep(patch, kept.base(temporary), tmp_path_factory.getbasetemp())
        kept.keep_plain_programs(patch, folder / "programs")
        zygote.fork_isolated_calls(patch)
        yield


@pytest.fixture(autouse=True)
def _private_temporaries(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a crash leaves for a bug report stays among the files of the tests."""
    folder = tmp_path_factory.getbasetemp() / "temporaries"
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.fixture
def must_end() -> Iterator[None]:
    """For tests whose work takes a moment, or for ever where it grows as it must not: they fail after minutes."""

    def stop(*_: object) -> None:
        raise TimeoutError("it does not come to an end")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(300)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


_on_gpus: list[Any] = []


@pytest.fixture(autouse=True, scope="session")
def _programs_on_gpus() -> Iterator[None]:
    """Note programs that are loaded on GPUs."""
    load = program.Program._loaded

    def noted(self: Any, *arguments: Any) -> Any:
        loaded = load(self, *arguments)
        if not loaded.on_host:
            _on_gpus.append(self)
        return loaded

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program.Program, "_loaded", noted)
        yield


@pytest.fixture(autouse=True)
def _gpus_close() -> Iterator[None]:
    """Devices of GPUs close with the test that opens them: Mesa's for the CPU keeps cores busy.

    Programs that several tests share are loaded again; what errors hold is garbage.
    """
    yield
    while _on_gpus:
        _on_gpus.pop()._programs.clear()
    devices = sys.modules.get("opsplice.runtime.runtime_devices")
    if devices and devices._others:
        gc.collect()


@pytest.fixture
def garbage() -> Iterator[Callable[[Callable[[], object]], int]]:
    """How many objects a call leaves that refer to each other, so that only the garbage collector frees them.

    The least of three: other threads may leave some meanwhile.
    """

    def left(call: Callable[[], object]) -> int:
        found = []
        for _ in range(4):  # the first time for what it keeps
            call()
            found.append(gc.collect())
        return min(found[1:])

    gc.disable()
    yield left
    gc.enable()


@pytest.fixture(scope="session")
def samples() -> Path:
    return ROOT / "samples"


@pytest.fixture(scope="session")
def vulkan() -> None:
    """Tests that run on a Vulkan device, be it a software one."""
    import iree.runtime

    try:
        # One that stays open keeps a core busy.
        iree.runtime.get_device("vulkan", cache=False)
    except (ValueError, RuntimeError) as error:
        pytest.skip(f"there is no Vulkan device (apt-get install mesa-vulkan-drivers): {error}")


@pytest.fixture(scope="session")
def cuda() -> None:
    """Tests that run on a CUDA GPU."""
    import iree.runtime

    try:
        iree.runtime.get_device("cuda", cache=False)
    except (ValueError, RuntimeError):
        pytest.skip("there is no CUDA GPU with its driver (docs/gpu.md)")


@pytest.fixture(scope="session")
def cuda_compiler() -> None:
    """Tests that build kernels in CUDA C as it is, which clang alone does not."""
    from opsplice.targets.build import cuda_compilers

    if cuda_compilers.find("nvcc") is None and cuda_compilers.find("nvrtc") is None:
        pytest.skip(f"neither nvcc nor NVRTC is here ({cuda_compilers.HOW_TO_GET['nvrtc']})")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """On a busy machine, Mesa refuses a `vkSignalSemaphore` of IREE's about once in 4,000 calls of loops.

    The device is lost then, and no number is wrong. The test is run again, once, with a warning.
    """
    try:
        return (yield)
    except Exception as error:
        if "VK_ERROR_DEVICE_LOST" not in str(error):
            raise
        warnings.warn(f"the Vulkan device was lost, and the test was run again: {error}", stacklevel=1)
    pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames})
    return True


AMD_KERNEL = """
define protected amdgpu_kernel void @scale(ptr addrspace(1) %p, ptr addrspace(1) %q, i32 %n) #0 {
  %x = load float, ptr addrspace(1) %p
  store float %x, ptr addrspace(1) %q
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,256" }
"""


@pytest.fixture
def code_object(tmp_path) -> bytes:
    """A code object for gfx942, `scale` with two buffers and a word; linked by the linker that IREE brings along."""
    linker = Path(util.find_spec("iree.compiler").submodule_search_locations[0]) / "_mlir_libs" / "iree-lld"
    if not linker.is_file():
        pytest.skip("IREE's compiler is here without its linker, iree-lld")
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    machine = binding.Target.from_triple("amdgcn-amd-amdhsa").create_target_machine(cpu="gfx942", reloc="pic")
    module = binding.parse_assembly(AMD_KERNEL)
    module.triple, module.data_layout = "amdgcn-amd-amdhsa", str(machine.target_data)
    (tmp_path / "scale.o").write_bytes(machine.emit_object(module))
    command = [linker, "-flavor", "gnu", "-shared", "scale.o", "-o", "scale.hsaco"]
    subprocess.run(command, cwd=tmp_path, check=True)
    return (tmp_path / "scale.hsaco").read_bytes()


# ---- at the end: the table of approaches, and what the tests cost ----------------------------------------------------

_gathered = pytest.StashKey["_Gathered"]()


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # looking for garbage takes a third of the time that collecting tests does, and there is next to none
    config.stash[_gathered] = _Gathered()
    config.pluginmanager.register(config.stash[_gathered])
    if file := getattr(config, "workerinput", {}).get("last_words"):
        faulthandler.enable(os.open(file, os.O_WRONLY))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give a process of the tests a file in which it writes where it was when it crashed."""
    descriptor, node.workerinput["last_words"] = tempfile.mkstemp(prefix="opsplice-tests-")
    os.close(descriptor)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    file = Path(node.workerinput["last_words"])
    if error:
        node.config.stash[_gathered].crashes.append(f"{node.gateway.id}: {error}\n{file.read_text()}")
    file.unlink()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    # Reports are all that comes to the main process from others.
    if call.when == "setup":
        item.user_properties += [("cell", list(mark.args)) for mark in item.iter_markers("cell")]
    if call.when == "teardown":
        item.user_properties.append(("compiles", kept.Compiles.taken()))


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)  # large specs and programs are no garbage, and at 700 new objects are looked through often
    gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # else nanobind tells of leaks at the end of the process


class _Gathered:
    """What the reports of the tests say, whichever process ran them."""

    def __init__(self) -> None:
        self.cells = Cells()
        self.compiles = 0
        self.crashes: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == "cell" and (report.when == "call" or report.skipped):
                self.cells.add(*value, outcome=report.outcome)
            if name == "compiles" and report.when == "teardown":
                self.compiles += value


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """With OPSPLICE_TABLE=write the table in the README is made anew; else what differs from it is said."""
    gathered, readme = config.stash[_gathered], ROOT / "README.md"
    for crash in gathered.crashes:
        terminalreporter.section("a process of the tests has crashed")
        terminalreporter.write_line(crash)
    if os.environ.get("OPSPLICE_TABLE") == "write":
        readme.write_text(gathered.cells.written_into(readme.read_text()))
    for line in gathered.cells.contradictions(readme.read_text()):
        terminalreporter.write_line(f"README.md: {line}")
    if gathered.compiles:
        terminalreporter.write_line(f"{gathered.compiles} compiles in the processes of the tests")
