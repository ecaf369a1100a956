"""Bounds that are measured: how many groups, rows and values each choice of bounds would cut off, and which is best.

All of it rests on histograms over units: a unit is in one place of each, so a histogram moves by one however many rows
and groups the unit has. `edges` has the bins, `measuring` the query for an engine, `histogram` and `share` what noisy
ones tell, `curve` the error that bounds lead to, `suggestion` what comes back.
"""
