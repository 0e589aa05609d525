"""Patterns as graphs of terms, and walks over them."""
