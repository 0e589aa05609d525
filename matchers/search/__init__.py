"""Does a pattern hold at one value?"""
