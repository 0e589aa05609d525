"""Sizes that are known at compile time, bounded, or read at run time."""
