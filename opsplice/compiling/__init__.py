"""From a model and specs to a program."""
