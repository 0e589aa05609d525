"""ONNX: files taken as they are, and `session`, which looks like onnxruntime's InferenceSession."""
