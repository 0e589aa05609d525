"""Readers of files that hold code, of which nothing is trusted."""
