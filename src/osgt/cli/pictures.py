"""Pictures that commands write, with Matplotlib, which is an extra."""

from typing import Any

#: Pictures that Matplotlib can write and people can open.
PICTURES = (".png", ".svg", ".pdf")


def check_matplotlib() -> None:
    """Refuse a picture that could not be drawn, before anything is charged for it."""
    new_figure(1, 1)


def new_figure(width: float, height: float) -> Any:
    """An empty figure."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError:
        raise ImportError('a picture needs Matplotlib: pip install "osgt[plots]"') from None
    return Figure(figsize=(width, height), layout="constrained")
