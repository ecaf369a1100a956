"""Engines: what runs the queries. One module or package for each, behind the class `Engine`; found in one place.

Importing this package imports neither Ibis nor any engine: names can be listed at once.
"""

from osgt.tables.engines.registry import GROUP, engine_for, engine_named, engine_names, engine_on

__all__ = ["GROUP", "engine_for", "engine_named", "engine_names", "engine_on"]
