"""Reading MLIR: names of ops, their effects, and the shapes and types of values."""
