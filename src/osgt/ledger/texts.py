"""Names and other texts that people give: bounded, in one form, and free of what could deceive a reader."""

import unicodedata

LONGEST_NAME = 200
LONGEST_TEXT = 2_000
LONGEST_QUERY = 100_000

#: Control, invisible and unassigned characters, halves of pairs, and what breaks lines.
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")

#: Small letters of other scripts that look like Latin ones, as small or as capital letters.
_ALIKE = str.maketrans(
    "авеёзіїјкмнорсѕтухһԁԛԝαβγεζηικμνορτυχ",
    "abee3iijkmhopcstyxhdqwabyezhikmvoptyx",
)


def name_of(value: object, argument: str = "dataset") -> str:
    """A name in its one form, or an error that says what is wrong with it."""
    if not isinstance(value, str):
        raise TypeError(f"{argument} must be a text, got {value!r} of type {type(value).__name__}")
    # Two spellings of one name that look the same would be two budgets.
    name = unicodedata.normalize("NFC", value)
    if not name or name != name.strip() or len(name) > LONGEST_NAME:
        raise ValueError(
            f"{argument} must be a name of 1 to {LONGEST_NAME} characters without spaces around it, got {value[:300]!r}"
        )
    if any(unicodedata.category(character) in _HIDDEN for character in name):
        raise ValueError(f"{argument} must not hold control or invisible characters, got {value!r}")
    return name


def optional_name(value: object, argument: str) -> str | None:
    """The same, or None."""
    return None if value is None else name_of(value, argument)


def text_of(value: object, argument: str, longest: int = LONGEST_TEXT) -> str:
    """A text of bounded length; characters that could deceive a reader are replaced before it is stored."""
    if not isinstance(value, str):
        raise TypeError(f"{argument} must be a text, got {value!r} of type {type(value).__name__}")
    if len(value) > longest:
        raise ValueError(f"{argument} must have at most {longest:,} characters, got {len(value):,}")
    return clean(value)


def optional_text(value: object, argument: str, longest: int = LONGEST_TEXT) -> str | None:
    """The same, or None."""
    return None if value is None else text_of(value, argument, longest)


def clean(text: str) -> str:
    """The text with a mark in place of each character that is not printed; lines and tabs stay."""
    return "".join("�" if _is_hidden(character) and character not in "\n\t" else character for character in text)


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN


def skeleton(name: str) -> str:
    """What a name looks like: equal for names that differ in case, width or look-alike letters only."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).translate(_ALIKE).split())
