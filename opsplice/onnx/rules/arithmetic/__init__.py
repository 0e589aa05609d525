"""Rules for arithmetic: that of integers, of floats of 8 bits, and of numbers of a few bits."""
