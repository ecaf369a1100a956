"""Plans: which whole numbers are measured, with which noise, settled before any data are read."""
