"""A page from a template: every text is escaped, and characters that turn or hide text become marks."""

import base64
import hashlib
import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from osgt.support.text import one_line, printable

if TYPE_CHECKING:
    from jinja2 import Environment

#: What may become a link: everything else stays text.
_MAIL, _WEB = re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+", re.ASCII), re.compile(r"https?://[\w.-]+(:\d+)?(/[!-~]*)?")


def render(template: str, **values: Any) -> str:
    """The page as text."""
    style = resources.files("osgt.render").joinpath("style.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    result = environment().get_template(template)
    return result.render(style=Markup(style), policy=policy, **values)


def fragment(template: str, **values: Any) -> str:
    """A piece of a page of others, with a style that touches nothing else there."""
    style = resources.files("osgt.render").joinpath("notebook.css").read_text(encoding="utf-8")
    return environment().get_template(template).render(style=Markup(style), **values)


@cache
def environment(*packages: str) -> "Environment":
    """The templates of this package, and of others that build on them."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - takes a while

    made = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in (*packages, "osgt.render")]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {"one_line": one_line, "link": link, "exact": exact, "together": together}
    return made


def exact(text: str) -> Markup:
    """Text for the value of a field, which comes back as it is: escaped, with no marks in it."""
    return escape(text)


def _shown(value: Any) -> Any:
    return value if isinstance(value, Markup) else printable(value)


def together(text: str) -> str:
    """A sentence in which no line ends between a number and its percent sign."""
    return text.replace(" %", "\u00a0%")


def link(text: str) -> str | None:
    """The address that a text is: of a web page or for mail; None if it is anything else."""
    if _MAIL.fullmatch(text):
        return f"mailto:{text}"
    return text if _WEB.fullmatch(text) else None


def data_uri(kind: str, content: bytes) -> str:
    """A file inside the page."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
