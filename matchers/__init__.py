"""The pattern graph, canonical views of ops, the index and the engine. It knows nothing of targets."""
