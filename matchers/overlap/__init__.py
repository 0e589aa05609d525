"""Patterns against each other: which one hides another, and which can never hold."""
