"""Patterns as plain C and as programs of their own."""
