"""Rules for arithmetic: that of integers."""
