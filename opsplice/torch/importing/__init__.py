"""Models of PyTorch as MLIR: graphs of torch.compile, exported programs and .pt2 files."""
