"""Specs of MLIR's transform dialect: run, written, and read."""
