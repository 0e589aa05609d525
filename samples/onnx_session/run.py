"""Runs a model by a session with specs, and by onnxruntime if that is there."""

import sys
from pathlib import Path

import numpy as np

import opsplice.onnx

SPEC = Path(__file__).resolve().parent.parent / "transformer" / "transformer.splice"


def main(model: str) -> None:
    x = np.random.default_rng(1).normal(size=(2, 16, 64)).astype(np.float32)
    session = opsplice.onnx.session(model, specs=[SPEC])
    (y,) = session.run(None, {"x": x})
    for each in session.report.replacements:
        print(f"{each.location}: {each.pattern} => {each.kernel}")
    try:
        import onnxruntime
    except ImportError:
        print("onnxruntime is not installed, so nothing is compared")
        return
    (other,) = onnxruntime.InferenceSession(model).run(None, {"x": x})
    print(f"largest difference from onnxruntime: {abs(y - other).max():.1g}")


if __name__ == "__main__":
    main(sys.argv[1])
