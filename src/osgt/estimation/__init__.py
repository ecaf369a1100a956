"""Estimates from noisy numbers: least squares over totals, quantiles, intervals, rounding. Post-processing only."""
