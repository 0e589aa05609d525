"""What each element of a tensor is, as an expression over indices."""
