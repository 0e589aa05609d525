"""All figures, one after the other."""

from benchmarks import calling, compiling, dispatch, match, registry, starting

for benchmark in (starting, compiling, calling, dispatch, match, registry):
    benchmark.main()
