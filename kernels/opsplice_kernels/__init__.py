"""Kernels for opsplice, by their specs and sources; no code of this package is run."""
