"""Pictures that commands write, with Matplotlib, which is an extra."""

from osgt.pages.plots import new_figure

#: Pictures that Matplotlib can write and people can open.
PICTURES = (".png", ".svg", ".pdf")


def check_matplotlib() -> None:
    """Refuse a picture that could not be drawn, before anything is charged for it."""
    new_figure(1, 1)
