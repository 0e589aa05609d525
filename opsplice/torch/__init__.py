"""PyTorch: `torch.compile(model, backend="opsplice")`, found by its entry point, and `export` ahead of time."""
