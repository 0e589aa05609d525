"""From ops of a program to a pattern of the language."""
