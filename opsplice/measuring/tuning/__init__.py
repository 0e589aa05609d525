"""Which kernel is the fastest for each computation of a model here: measured, kept, and written down as a spec."""
