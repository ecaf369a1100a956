"""Lists of names, as tables."""

from collections.abc import Mapping


def by_name(names: Mapping[str, str]) -> dict[str, str]:
    """From what names have in common to the names, the other way round."""
    return {name: common for common, listed in names.items() for name in listed.split()}
