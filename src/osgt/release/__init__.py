"""The measuring of a release: exact sums from the engine, noise, and totals that add up."""
