"""What benchmarks run: programs, models and the rules that match in them."""
