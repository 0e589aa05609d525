"""A module for each kind of device: a kernel's file in, a checked artifact out."""
