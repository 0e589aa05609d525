"""Specs written as text again."""
