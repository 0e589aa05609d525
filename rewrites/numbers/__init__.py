"""What IREE computes wrongly: ops that get another form."""
