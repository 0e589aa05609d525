"""Who signed a package, and what of it may be used."""
