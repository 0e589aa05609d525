"""Functions put into code that asks for them."""
