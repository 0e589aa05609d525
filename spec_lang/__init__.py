"""The pattern language: grammar, tree, checker, diagnostics, formatter. It knows nothing of MLIR payloads."""
