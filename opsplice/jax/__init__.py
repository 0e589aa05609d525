"""JAX: `jit` with specs."""
