"""One module for each command, each with `run(options) -> exit code`."""
