"""How programs use memory: what IREE leaves open or does wrongly."""
