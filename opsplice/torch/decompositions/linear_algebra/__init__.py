"""Matrices: products, factors, singular values and eigenvalues."""
