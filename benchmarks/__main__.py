"""All figures, one after the other."""

from benchmarks import calling, compiling, starting

for benchmark in (starting, compiling, calling):
    benchmark.main()
