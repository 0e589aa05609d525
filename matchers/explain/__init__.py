"""Why patterns do not hold, in words and pictures."""
