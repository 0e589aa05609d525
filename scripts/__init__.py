"""What is run from the Makefile, and no part of the package."""
