"""Where packages are: registries and layout folders."""
