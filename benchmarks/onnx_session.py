"""What a call of an ONNX session costs, and a start with the program in the cache, beside onnxruntime in one run.

`python -m benchmarks.onnx_session`: the model of samples/onnx_session, one thread each.
"""

from __future__ import annotations

import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import opsplice.onnx

SAMPLES = Path(__file__).parent.parent / "samples"
SPEC = SAMPLES / "transformer" / "transformer.splice"
_ROUNDS, _CALLS = 7, 200

_OURS = """
import sys, numpy, opsplice.onnx
session = opsplice.onnx.session(sys.argv[1], specs=[sys.argv[2]], providers=["local-sync"])
session.run(None, {"x": numpy.zeros((2, 16, 64), numpy.float32)})
"""
_THEIRS = """
import sys, numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1])
session.run(None, {"x": numpy.zeros((2, 16, 64), numpy.float32)})
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = str(runpy.run_path(str(SAMPLES / "onnx_session" / "make_model.py"))["write"](Path(folder)))
        feed = {"x": np.random.default_rng(0).normal(size=(2, 16, 64)).astype(np.float32)}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        theirs = onnxruntime.InferenceSession(model, options)
        spliced, plain = (opsplice.onnx.session(model, specs=specs, providers=["local-sync"]) for specs in ([SPEC], []))
        runs = {"with rules": spliced.run, "IREE alone": plain.run, "onnxruntime": theirs.run}
        times: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(_ROUNDS):
            for name, run in runs.items():
                times[name].append(_seconds(run, feed))
        for name, found in times.items():
            print(f"a call, {name:<12} {min(found) * 1e6:8.0f} us")
        for name, code in (("opsplice", _OURS), ("onnxruntime", _THEIRS)):
            print(f"a warm start, {name:<12} {_start(code, model):5.2f} s of processor time")


def _seconds(run: Callable[..., Any], feed: dict[str, np.ndarray]) -> float:
    start = time.thread_time()
    for _ in range(_CALLS):
        run(None, feed)
    return (time.thread_time() - start) / _CALLS


def _start(code: str, model: str) -> float:
    import resource

    found = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code, model, str(SPEC)], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(found[1:])


if __name__ == "__main__":
    main()
