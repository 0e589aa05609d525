"""All figures, one after the other."""

from benchmarks import calling, compiling, dispatch, libraries, match, registry, starting, views

for benchmark in (starting, compiling, calling, dispatch, match, libraries, registry, views):
    benchmark.main()
