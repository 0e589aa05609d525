"""Rules for operators that stand for a whole layer."""
