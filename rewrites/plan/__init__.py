"""What is done with each match, and why not more."""
