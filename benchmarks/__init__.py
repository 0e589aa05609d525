"""Figures of opsplice against its peers, each a ratio measured in one run. `python -m benchmarks` runs them all."""
