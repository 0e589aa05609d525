"""What is put in place at later phases of IREE's pipeline."""
