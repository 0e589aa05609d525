"""Matches cut out of programs, and the programs that verifying and timing run."""
