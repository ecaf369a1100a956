"""What stands in the fields of the page, as it was typed, and how single entries are read."""

import re
from collections.abc import Iterable, Mapping

#: What is wrong, by the name of the field.
Problems = dict[str, str]

_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?")


class Entries:
    """The fields of a form: each may be there several times. What is empty was not entered."""

    def __init__(self, fields: Mapping[str, list[str]]) -> None:
        self.fields = {name: list(values) for name, values in fields.items()}

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[str, str]]) -> "Entries":
        """The fields as a browser sends them."""
        fields: dict[str, list[str]] = {}
        for name, value in pairs:  # both with lines as browsers end them
            fields.setdefault(name.replace("\r\n", "\n"), []).append(value.replace("\r\n", "\n"))
        return cls(fields)

    def one(self, name: str) -> str:
        """The entry of a field, without blanks around it; "" if there is none."""
        return (self.fields.get(name) or [""])[0].strip()

    def raw(self, name: str) -> str:
        """The entry of a field as it was typed."""
        return (self.fields.get(name) or [""])[0]

    def all(self, name: str) -> list[str]:
        """The entries of a field that may be there several times, without empty ones."""
        return [value for value in self.fields.get(name, []) if value.strip()]

    def below(self, prefix: str) -> dict[str, str]:
        """The entries of the fields `PREFIX.…`, by the rest of their names, without empty ones."""
        start = f"{prefix}."
        found = {name.removeprefix(start): self.one(name) for name in self.fields if name.startswith(start)}
        return {name: value for name, value in found.items() if value}

    def rows(self, prefix: str) -> list[int]:
        """The numbers N of the fields `PREFIX.N.…`, in order."""
        found = {name.split(".")[1] for name in self.fields if name.startswith(f"{prefix}.") and name.count(".") > 1}
        return sorted(int(number) for number in found if number.isdecimal() and len(number) < 5)

    def without(self, *prefixes: str) -> "Entries":
        """The same without some fields and those below them."""
        return Entries(
            {
                name: values
                for name, values in self.fields.items()
                if not any(name == each or name.startswith(f"{each}.") for each in prefixes)
            }
        )

    def updated(self, fields: Mapping[str, list[str]]) -> "Entries":
        """The same with other entries in some fields."""
        return Entries({**self.fields, **fields})


def text(entries: Entries, name: str, problems: Problems) -> str | None:
    """What was entered; None if nothing was."""
    return entries.one(name) or None


def whole(entries: Entries, name: str, problems: Problems) -> int | None:
    """A whole number; None if there is none, and a problem if something else stands there."""
    entered = entries.one(name)
    if not entered:
        return None
    plain = entered.replace(" ", "").replace("_", "")
    if re.fullmatch(r"[+-]?\d{1,30}", plain):
        return int(plain)
    if re.fullmatch(r"\d{1,3}(,\d{3})+", plain):
        return int(plain.replace(",", ""))
    problems[name] = f"This must be a whole number, as 8; got {entered[:40]!r}."
    return None


def number(entries: Entries, name: str, problems: Problems) -> int | float | None:
    """A number; None if there is none, and a problem if something else stands there."""
    entered = entries.one(name)
    if not entered:
        return None
    if re.fullmatch(r"[+-]?\d{1,30}", entered):
        return int(entered)
    if _THOUSANDS.fullmatch(entered):
        words = f"Write {entered.replace(',', '')}, without commas"
        decimal = f", or {entered.replace(',', '.')}, with a point" if _COMMA.fullmatch(entered) else ""
        problems[name] = f"{words}{decimal}."
        return None
    if _COMMA.fullmatch(entered):
        problems[name] = f"Write {entered.replace(',', '.')}, with a point in place of the comma."
        return None
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", entered):
        return float(entered)
    problems[name] = f"This must be a number, as 0.5 or 1e-8; got {entered[:40]!r}."
    return None
