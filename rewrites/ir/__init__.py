"""Building and changing MLIR."""
