"""Pattern libraries that are Python packages."""
