"""All figures, one after the other."""

from benchmarks import calling, compiling, match, starting

for benchmark in (starting, compiling, calling, match):
    benchmark.main()
