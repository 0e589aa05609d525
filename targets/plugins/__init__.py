"""Plugins of IREE's CPU runtime."""
