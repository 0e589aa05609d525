"""What specs bring and whether their numbers hold: matches cut out, run and compared, timed, and reported."""
