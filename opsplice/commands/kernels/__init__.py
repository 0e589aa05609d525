"""The actions of `opsplice kernel` that need much: keys, packages, providers."""
