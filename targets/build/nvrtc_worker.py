"""The child process that holds NVRTC: `python -P nvrtc_worker.py < job.json > answer.json`, in the source's folder.

NVRTC is a library; in a process of its own it can neither end nor disturb the compile. It needs no driver and no GPU.
The job and the answer are JSON objects; see `cuda_compilers.py`, which is the only caller. The C interface is that of
nvrtc.h, the same since CUDA 11. This file must import nothing of opsplice, so that it starts fast.
"""

import ctypes
import glob
import json
import os
import sys
from typing import Any

_NO_HEADERS = (0, None, None)
_HEADER_EVENT = "Processing Header File"


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Does one job: `about` (version, capabilities) or `compile` (a source to PTX)."""
    # It opens its second library by name alone, and would not look beside itself.
    for builtins in glob.glob(os.path.join(os.path.dirname(job["library"]), "libnvrtc-builtins.so*")):
        ctypes.CDLL(builtins, ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(job["library"], ctypes.RTLD_GLOBAL)
    return _compile(library, job) if job["do"] == "compile" else _about(library)


def _about(library: ctypes.CDLL) -> dict[str, Any]:
    major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    _must(library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "nvrtcVersion")
    _must(library.nvrtcGetNumSupportedArchs(ctypes.byref(count)), "nvrtcGetNumSupportedArchs")
    capabilities = (ctypes.c_int * count.value)()
    _must(library.nvrtcGetSupportedArchs(capabilities), "nvrtcGetSupportedArchs")
    return {"version": f"{major.value}.{minor.value}", "capabilities": list(capabilities)}


def _compile(library: ctypes.CDLL, job: dict[str, Any]) -> dict[str, Any]:
    with open(job["source"], "rb") as file:
        text = file.read()
    options = [os.fsencode(option) for option in job["options"]]
    if job["trace"]:
        options.append(os.fsencode(f"--fdevice-time-trace={job['trace']}"))
    program = ctypes.c_void_p()
    name = os.fsencode(job["source"])
    _must(library.nvrtcCreateProgram(ctypes.byref(program), text, name, *_NO_HEADERS), "nvrtcCreateProgram")
    status = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    log = _text(library, "ProgramLog", program).decode("utf-8", "replace")
    if status != 0:
        return {"error": log.strip() or f"nvrtcCompileProgram gave status {status}"}
    with open(job["output"], "wb") as file:
        file.write(_text(library, "PTX", program))
    return {"included": _included(job["trace"]) if job["trace"] else []}


def _text(library: ctypes.CDLL, what: str, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    _must(getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), f"nvrtcGet{what}Size")
    buffer = ctypes.create_string_buffer(max(size.value, 1))
    _must(getattr(library, f"nvrtcGet{what}")(program, buffer), f"nvrtcGet{what}")
    return buffer.value


def _included(trace: str) -> list[str]:
    """The headers of a compile, which NVRTC tells nowhere but in its trace; it ends the trace's name in `.json`."""
    with open(f"{trace}.json", encoding="utf-8", errors="surrogateescape") as file:
        events = json.load(file)["traceEvents"]
    return sorted({event["args"]["detail"] for event in events if event.get("name") == _HEADER_EVENT})


def _must(status: int, function: str) -> None:
    if status != 0:
        raise RuntimeError(f"{function} gave status {status}")


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
