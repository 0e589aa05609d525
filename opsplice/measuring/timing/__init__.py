"""What programs and their parts cost: bench and survey."""
