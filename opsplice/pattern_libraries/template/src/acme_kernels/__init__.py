"""Patterns and kernels for opsplice, in the folder `specs`."""
