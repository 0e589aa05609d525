"""A sample of a pattern library for opsplice. What counts is the folder `specs`; no code of this package is run."""
