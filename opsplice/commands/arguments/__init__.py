"""The arguments of the commands."""
