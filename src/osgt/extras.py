"""Packages that only some work needs, and how they are installed."""


def missing(what: str, package: str, extra: str) -> ImportError:
    """The error for work whose packages are not installed: what needs which, and the command that installs it."""
    return ImportError(f'{what} needs {package}: pip install "osgt[{extra}]"')
