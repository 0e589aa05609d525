"""What every layer may import: errors, files, the cache, and small helpers."""
