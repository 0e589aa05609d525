"""Packages of kernels and pattern libraries: kept on disk, carried from place to place, found and trusted.

It knows nothing of patterns, kernels or what an artifact is.
"""
