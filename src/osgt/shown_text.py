"""Text from elsewhere as a terminal or a page may show it: no control codes, nothing that turns the text around it."""

import unicodedata

#: The beginning of text that a spreadsheet may take for a formula: =, +, - or @, after blanks and in the wide forms of
#: East Asian text too; a tab or the end of a line; and the apostrophe that CSV puts before these, so that the way back
#: is unambiguous. For Python and for Arrow alike.
FORMULA = "^(?:['\\t\\r\\n]|[\\x00-\\x20\u00a0\u3000\ufeff]*[=+\\-@\uff1d\uff0b\uff0d\uff20])"


def printable(text: object) -> str:
    """The text with a mark in place of each character that is not printed; lines and tabs stay."""
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(c if unicodedata.category(c)[0] != "C" or c in "\n\t" else "�" for c in shown)


def one_line(text: object) -> str:
    """The same on one line, with one space wherever there was more."""
    return " ".join(printable(text).split())


def shortened(text: object, length: int) -> str:
    """The same, not longer than so many characters."""
    line = one_line(text)
    return line if len(line) <= length else line[: length - 1] + "…"
