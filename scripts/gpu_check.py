"""Runs the programs of a bundle that `make gpu` built, compares their numbers and times them. It stands alone: Python,
and what lies beside it.

    python3 check.py [--device cuda] [--rounds 50]

Each program is there twice: with a kernel in the place of some ops, and as IREE compiles it. Where PyTorch is installed
and sees the GPU, it is timed too. Exit codes: 0 all numbers right, 1 some wrong or a program that failed, 2 nothing
could be run here.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
WHEELS_ARE_FOR = (3, 12)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the programs of this bundle, compare their numbers, time them.")
    parser.add_argument("--device", help="where to run: cuda, cuda://1, ...; default: what the bundle was built for")
    parser.add_argument("--rounds", type=int, default=50, help="how often each program is timed (default: 50)")
    options = parser.parse_args()
    if (HERE / "wheels").is_dir():
        _enter_venv()
    manifest = json.loads((HERE / "programs.json").read_text())
    name = options.device or manifest["device"]
    try:
        import iree.runtime as rt
    except ImportError as error:
        return _nothing(f"IREE's runtime is not installed ({error}): pip install iree-base-runtime numpy")
    try:
        device = rt.get_device(name)
    except (ValueError, RuntimeError) as error:
        status = (str(error).strip().splitlines() or [repr(error)])[0].partition(": ")[2] or str(error)
        if name.startswith("cuda"):
            return _nothing(f"there is no CUDA driver here, or no GPU that it can use (libcuda.so.1): {status}")
        return _nothing(f"device '{name}' cannot be opened: {status}")
    torch = _torch() if name.startswith("cuda") else None
    _heading(name, device, torch, manifest)
    failures = 0
    for case in manifest["cases"]:
        failures += _run(case, device, torch, options.rounds)
    print("all numbers are right" if not failures else f"{failures} wrong")
    return 1 if failures else 0


def inputs(shapes: Sequence[Sequence[int]]) -> list[Any]:
    """The inputs of a call: numbers from -1 to 1 that depend on the shapes alone."""
    import numpy as np

    arrays = []
    for number, shape in enumerate(shapes):
        bits = np.arange(np.prod(shape, dtype=np.int64), dtype=np.uint32) + np.uint32(number * 0x9E3779B9 % 2**32)
        for factor in (0x85EBCA6B, 0xC2B2AE35):  # the end of MurmurHash3
            bits = (bits ^ (bits >> np.uint32(15))) * np.uint32(factor)
        numbers = (bits >> np.uint32(8)).astype(np.float32) / np.float32(2**23) - np.float32(1)
        arrays.append(numbers.reshape(shape))
    return arrays


# ---- one program ---------------------------------------------------------------------------------------------------


def _run(case: dict[str, Any], device: Any, torch: Any, rounds: int) -> int:
    """Runs a program with its kernel and without, with each of its inputs. Returns how many went wrong."""
    sides: dict[str, Any] = {}
    wrong = 0
    for side in ("kernel", "own"):
        try:
            sides[side] = _load(HERE / "programs" / f"{case['name']}.{side}.vmfb", device)
        except (ValueError, RuntimeError) as error:
            print(f"{case['name']}, {side}: does not load: {_reason(error, case)}")
            wrong += 1
    for call in case["calls"]:
        wrong += _call(case, call, sides, device, torch, rounds)
    return wrong


def _call(
    case: dict[str, Any], call: dict[str, Any], sides: dict[str, Any], device: Any, torch: Any, rounds: int
) -> int:
    import iree.runtime as rt
    import numpy as np

    wrong = 0
    arrays = inputs(call["shapes"])
    on_device = [rt.asdevicearray(device, array) for array in arrays]
    runs: dict[str, Callable[[], object]] = {}
    for side, function in sides.items():
        try:
            got = _on_host(function(*on_device), device)[:: call["step"]]
        except (ValueError, RuntimeError) as error:
            print(f"{_title(case, call)}, {side}: fails: {_reason(error, case)}")
            wrong += 1
            continue
        wanted = np.load(HERE / "expected" / call["expected"][side])
        off = float(np.max(np.abs(got - wanted) / (1 + np.abs(wanted)))) if got.shape == wanted.shape else float("inf")
        if not off <= call["tolerance"]:
            print(f"{_title(case, call)}, {side}: WRONG NUMBERS, off by up to {off:.2g}")
            wrong += 1
            continue
        runs[side] = lambda function=function: function(*on_device)
    if call["timed"] and torch is not None and case["torch"]:
        runs["torch"] = _torch_call(torch, case["torch"], arrays)
    times = _times(runs, rounds if call["timed"] else 0)
    cells = [f"{times[side] * 1e6:12.1f} us" if side in times else f"{'-':>15}" for side in ("kernel", "own", "torch")]
    ratios = [
        f"{times['kernel'] / times[side]:10.2f}" if {"kernel", side} <= times.keys() else f"{'-':>10}"
        for side in ("own", "torch")
    ]
    print(f"{_title(case, call):32}{'WRONG' if wrong else 'right':>7}{''.join(cells)}{''.join(ratios)}", flush=True)
    return wrong


def _load(path: Path, device: Any) -> Any:
    import iree.runtime as rt

    config = rt.Config(device=device)
    module = rt.VmModule.copy_buffer(config.vm_instance, path.read_bytes())
    return rt.load_vm_module(module, config)["main"]


def _times(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median time of each, all of them in turn. What they return is on the device and complete."""
    taken: dict[str, list[float]] = {side: [] for side in runs}
    for number in range(rounds + 3 if rounds else 0):
        for side, run in runs.items():
            start = time.perf_counter()
            run()
            if number >= 3:
                taken[side].append(time.perf_counter() - start)
    return {side: statistics.median(found) for side, found in taken.items() if found}


def _on_host(value: Any, device: Any) -> Any:
    """Copies through a buffer that both see: IREE's own way imports memory of the host, which drivers may refuse."""
    import iree.runtime as rt
    import numpy as np

    if value._is_mappable():
        return np.array(value.to_host())
    buffer = value._buffer_view.get_buffer()
    staging = device.allocator.allocate_buffer(
        memory_type=rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE,
        allowed_usage=rt.BufferUsage.TRANSFER | rt.BufferUsage.MAPPING,
        allocation_size=buffer.byte_length(),
    )
    done = device.create_semaphore(0)
    device.queue_copy(buffer, staging, wait_semaphores=[], signal_semaphores=[(done, 1)])
    rt.HalFence.create_at(done, 1).wait()
    count = int(np.prod(value.shape, dtype=np.int64)) * value.dtype.itemsize
    raw = staging.map().asarray((buffer.byte_length(),), np.dtype(np.uint8))
    return raw[:count].copy().view(value.dtype).reshape(value.shape)


# ---- PyTorch -------------------------------------------------------------------------------------------------------


def _torch() -> Any:
    """PyTorch, if it is there and sees a GPU."""
    try:
        import torch
    except Exception:  # an import of it can fail in many ways, none of which is of interest here
        return None
    if not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = False  # f32 on all sides
    return torch


def _torch_call(torch: Any, what: str, arrays: Sequence[Any]) -> Callable[[], object]:
    calls: dict[str, Callable[..., Any]] = {
        "scale_bias": lambda x, gain, bias: torch.exp(x * gain + bias),
        "quick_gelu": lambda x, w: _quick_gelu(torch, x @ w) + x,
        "matmul": lambda a, b: a @ b,
        "softmax": lambda x: torch.softmax(x, 1),
        "layernorm": lambda x, gain, bias: torch.nn.functional.layer_norm(x, gain.shape, gain, bias),
        "attention": lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k.mT, v, scale=1.0),
    }
    on_gpu = [torch.from_numpy(array).cuda() for array in arrays]

    def run() -> None:
        calls[what](*on_gpu)
        torch.cuda.synchronize()

    return run


def _quick_gelu(torch: Any, x: Any) -> Any:
    return x * torch.sigmoid(1.702 * x)


# ---- words ---------------------------------------------------------------------------------------------------------


def _heading(name: str, device: Any, torch: Any, manifest: dict[str, Any]) -> None:
    print(f"{_device_name(name)}; programs for {manifest['target']}; {_driver()}")
    if torch is not None:
        print(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}")
    print("median time of a call that is waited for, inputs and results on the device")
    titles = "".join(f"{title:>15}" for title in ("kernel", "IREE's own", "PyTorch"))
    print(f"{'':32}{'numbers':>7}{titles}{'/ IREE':>10}{'/ PyTorch':>10}")


def _device_name(name: str) -> str:
    import iree.runtime as rt

    driver, _, path = name.partition("://")
    with contextlib.suppress(ValueError, RuntimeError):
        devices = rt.get_driver(driver).query_available_devices()
        index = int(path) if path.isdigit() else 0
        return f"{name}: {devices[index if index < len(devices) else 0]['name']}"
    return name


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        return f"driver {done.stdout.split()[0]}" if done.stdout.split() else "driver unknown"
    return "no nvidia-smi"


def _title(case: dict[str, Any], call: dict[str, Any]) -> str:
    return f"{case['name']} {'x'.join(map(str, call['shapes'][0]))}"


def _reason(error: Exception, case: dict[str, Any]) -> str:
    text = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
    return f"{text} (its PTX is of version {', '.join(case['ptx'])})" if case["ptx"] else text


def _nothing(why: str) -> int:
    print(why, file=sys.stderr)
    return 2


# ---- the wheels ----------------------------------------------------------------------------------------------------


def _enter_venv() -> None:
    """Goes on in a venv beside this file that has the wheels. It sees what this Python sees, for PyTorch."""
    folder = HERE / "venv"
    if Path(sys.prefix) == folder:
        return
    if sys.version_info[:2] != WHEELS_ARE_FOR:
        wanted = ".".join(map(str, WHEELS_ARE_FOR))
        sys.exit(_nothing(f"the wheels are for Python {wanted}; run this with python{wanted}"))
    ready = folder / "ready"
    if not ready.exists():
        venv.EnvBuilder(clear=True, symlinks=True).create(folder)
        packages = folder / "lib" / f"python{'.'.join(map(str, WHEELS_ARE_FOR))}" / "site-packages"
        seen = [path for path in sys.path if path.rstrip("/").endswith("-packages")]
        (packages / "outer.pth").write_text("".join(f"{path}\n" for path in seen))
        for wheel in sorted((HERE / "wheels").glob("*.whl")):
            with zipfile.ZipFile(wheel) as file:  # these wheels are plain trees, so that no pip is needed
                file.extractall(packages)
        ready.touch()
    python = str(folder / "bin" / "python")
    os.execv(python, [python, str(Path(__file__).resolve()), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
