"""Every place where one of many patterns holds."""
