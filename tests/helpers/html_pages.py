"""Pages as a browser sees them: elements in order, what is inside which, and all text."""

import base64
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "input", "link"}

#: What stands in keys, names and titles of a hostile table.
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</table></style></body>&amp;",
    "<!-- comment",
    "]]>{{ 7 * 7 }}{% raw %}",
    "naïve ☃ مرحبا 𝔘",
    "=HYPERLINK(1)",
    "tab\tand\nnewline",
    "javascript:alert(1)",
    "W" * 120,
    "",
]


class Page(HTMLParser):
    """The elements of a page, each closed in its turn, and its text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()

    def handle_data(self, data):
        self.text.append(data)

    @property
    def words(self):
        """All text, with one space where there was more."""
        return " ".join("".join(self.text).split())

    def downloads(self):
        """The files inside the page by their names."""
        links = [attributes for tag, attributes in self.attributes if tag == "a" and "download" in attributes]
        return {link["download"]: base64.b64decode(link["href"].partition("base64,")[2]) for link in links}


def assert_loads_nothing(text, page):
    """No script, nothing that is fetched, no handler, no style but the one that the policy names."""
    assert not {"script", "img", "link", "iframe", "object", "embed", "base", "form"} & set(page.tags)
    for tag, attributes in page.attributes:
        assert not {"src", "xlink:href", "srcset", "action", "data", "style"} & set(attributes), tag
        assert not [name for name in attributes if name.startswith("on")], tag
        if "href" in attributes:
            assert tag == "a"
            assert attributes["href"].startswith(("data:text/csv", "data:application/", "https://", "mailto:", "out."))
    assert page.tags.count("style") == 1
    assert "url(" not in text
    assert "@import" not in text
    [policy] = [a["content"] for _, a in page.attributes if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
