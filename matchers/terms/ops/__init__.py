"""What payload ops compute, kind by kind."""
