"""Whether numbers hold: trials in guarded memory, compared with f64."""
