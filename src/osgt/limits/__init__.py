"""Limits on what one unit adds (`bounding`), and the choice of bounds by what each would cut off.

The choice rests on histograms over units: a unit is in one place of each, so a histogram moves by one however many rows
and groups the unit has. `histogram` has the bins and what noisy histograms tell, `histogram_query` the query for an
engine, `curve` the error that bounds lead to, `recommendation` what comes back.

`choice` draws one limit privately by the number of units that it would cut, `rule` says with which parameters.
"""
