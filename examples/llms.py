"""Write `llms.txt` beside the built site: what each page is about, for programs that read documentation.

A hook of MkDocs: pages, sections and first sentences are those of the site, nothing is told twice.
"""

import re
from pathlib import Path

_PAGES = {}
_NAV = []


def on_nav(nav, **_):
    """Remember the order and the sections of the pages."""
    _NAV[:] = nav.items


def on_page_markdown(markdown, page, **_):
    """Remember the first sentence of each page."""
    text = re.sub(r"^(#.*|<!--.*?-->|:::.*|!\[.*)$", "", markdown, flags=re.MULTILINE).strip()
    paragraph = " ".join(text.partition("\n\n")[0].split())
    sentence = re.match(r".+?[.!?](?=\s|$)", re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", paragraph))
    _PAGES[page.url] = sentence[0] if sentence and not paragraph.startswith(("|", "```", "-")) else ""


def on_post_build(config, **_):
    """Write the file."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    for section in _NAV:
        lines += ["", f"## {section.title}", ""]
        for page in section.children or [section]:
            about = _PAGES.get(page.url, "")
            lines.append(f"- [{page.title}]({page.url})" + (f": {about}" if about else ""))
    Path(config.site_dir, "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
