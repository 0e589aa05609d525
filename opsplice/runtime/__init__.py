"""Programs that run, their devices, and what they are given."""
