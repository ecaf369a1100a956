"""The query file: one model, its text, its schema and its reference."""
