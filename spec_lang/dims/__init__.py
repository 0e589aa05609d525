"""Arithmetic and conditions on dims."""
