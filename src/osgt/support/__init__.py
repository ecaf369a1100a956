"""Small helpers that every package may use: files, texts that are safe to show, locations, ranges of numbers."""
