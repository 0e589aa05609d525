"""SPIR-V: its words and declarations, what entry points take and touch, and names of capabilities."""
