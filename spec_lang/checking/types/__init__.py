"""The type of each value in a pattern."""
