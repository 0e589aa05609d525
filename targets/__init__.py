"""Backends, toolchains and artifacts. It knows nothing of patterns."""
