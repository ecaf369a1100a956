"""The report of a release: one page, without scripts."""
