"""PyTorch's ops in smaller ones that IREE takes."""
