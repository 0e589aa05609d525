"""Rules for signals: their spectra."""
