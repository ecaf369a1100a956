"""Limits on what one unit adds.

`worth` has the query in which every unit has the same number of steps, `choice` draws one limit privately by the number
of units that it would cut, `left_out` measures what limits cut off, and `misfits` counts values that do not fit their
types.
"""
