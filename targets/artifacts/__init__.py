"""A kernel's code for one target: what is asked for, and what comes back."""
