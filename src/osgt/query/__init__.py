"""Queries: groups, keys, levels and the whole numbers that each aggregate measures."""
