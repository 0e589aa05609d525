"""Compilers and assemblers: which are here, and how each is run."""
