"""What is written in the place of nodes of ONNX that IREE lacks, or computes wrongly."""
