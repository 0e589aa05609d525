"""The child process that asks NVIDIA's libraries: `python -P cuda_worker.py < job.json > answer.json`.

NVRTC and the driver are libraries; in a process of their own they can neither end nor disturb the compile. NVRTC needs
no driver and no GPU. The job and the answer are JSON objects; see `cuda_compilers.py`, which is the only caller. This
file must import nothing of opsplice, so that it starts fast.
"""

import json
import os
import sys
from typing import Any

from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

_NO_HEADERS = (0, None, None)
_HEADER_EVENT = "Processing Header File"


def about(_job: dict[str, Any]) -> dict[str, Any]:
    """NVRTC's file, version and compute capabilities; nothing where there is no NVRTC."""
    from cuda.bindings import nvrtc

    try:
        library = load_nvidia_dynamic_lib("nvrtc").abs_path
    except DynamicLibNotFoundError:
        return {}
    major, minor = _must(nvrtc.nvrtcVersion())
    (capabilities,) = _must(nvrtc.nvrtcGetSupportedArchs())
    return {"library": library, "version": f"{major}.{minor}", "capabilities": capabilities}


def gpus(_job: dict[str, Any]) -> dict[str, Any]:
    """The driver's CUDA version and the GPUs that it can use."""
    from cuda.bindings import driver

    _must(driver.cuInit(0))
    (version,) = _must(driver.cuDriverGetVersion())
    (count,) = _must(driver.cuDeviceGetCount())
    return {"version": f"{version // 1000}.{version % 1000 // 10}", "gpus": [_gpu(driver, n) for n in range(count)]}


def _gpu(driver: Any, number: int) -> str:
    (device,) = _must(driver.cuDeviceGet(number))
    (name,) = _must(driver.cuDeviceGetName(256, device))
    attributes = driver.CUdevice_attribute
    (major,) = _must(driver.cuDeviceGetAttribute(attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    (minor,) = _must(driver.cuDeviceGetAttribute(attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
    # The bindings' 256 bytes are not all zeros behind it.
    return f"{name.partition(bytes(1))[0].decode('utf-8', 'replace')} (sm_{major}{minor})"


def compile_source(job: dict[str, Any]) -> dict[str, Any]:
    """Compile a source to PTX; the answer has the headers that it `included`, or NVRTC's `error`."""
    from cuda.bindings import nvrtc

    with open(job["source"], "rb") as file:
        text = file.read()
    options = [os.fsencode(option) for option in (*job["options"], f"--fdevice-time-trace={job['trace']}")]
    (program,) = _must(nvrtc.nvrtcCreateProgram(text, os.fsencode(job["source"]), *_NO_HEADERS))
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if status != 0:
        log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).decode("utf-8", "replace")
        return {"error": log.strip() or f"nvrtcCompileProgram gave {status.name}"}
    with open(job["output"], "wb") as file:
        file.write(_text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program))
    return {"included": _included(job["trace"])}


def _text(size_of: Any, read: Any, program: Any) -> bytes:
    (size,) = _must(size_of(program))
    buffer = bytes(size)
    _must(read(program, buffer))
    return buffer.rstrip(b"\0")


def _included(trace: str) -> list[str]:
    """The headers of a compile, which NVRTC tells nowhere but in its trace; it ends the trace's name in `.json`."""
    with open(f"{trace}.json", encoding="utf-8", errors="surrogateescape") as file:
        events = json.load(file)["traceEvents"]
    return sorted({event["args"]["detail"] for event in events if event.get("name") == _HEADER_EVENT})


def _must(answer: tuple[Any, ...]) -> tuple[Any, ...]:
    status, *values = answer
    if status != 0:
        raise RuntimeError(f"{status.name} ({status.value})")
    return tuple(values)


_JOBS = {"about": about, "compile": compile_source, "gpus": gpus}

if __name__ == "__main__":
    asked = json.load(sys.stdin)
    json.dump(_JOBS[asked["do"]](asked), sys.stdout)
