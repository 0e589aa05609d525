"""The ways in which code gets into a program, a module for each."""
