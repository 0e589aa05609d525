"""Loops: fewer rounds, and less in each."""
