"""Patterns written out as ops on tensors."""
