"""Folders of specs with prebuilt files, and packages from registries as specs."""
