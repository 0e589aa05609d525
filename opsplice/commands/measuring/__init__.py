"""Commands that run a model's computations: whether numbers hold, and what they cost."""
