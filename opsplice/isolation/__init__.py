"""Work in child processes, whose crash is an error here."""
