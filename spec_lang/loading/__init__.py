"""Specs with all that they import."""
