"""All figures, one after the other."""

from benchmarks import calling, compiling, dispatch, match, starting

for benchmark in (starting, compiling, calling, dispatch, match):
    benchmark.main()
