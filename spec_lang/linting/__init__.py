"""What is allowed and cannot be meant."""
