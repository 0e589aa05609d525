"""What was done and why, as data, in a terminal and in a notebook."""
