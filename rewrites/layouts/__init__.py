"""How values lie in memory: what strided buffers are bound to, what kernels are told of it, and dense copies."""
