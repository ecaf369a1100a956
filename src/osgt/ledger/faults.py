"""What is wrong with an entry of a ledger."""

from osgt.ledger.chain import Entry


class Fault(Exception):  # noqa: N818 - what is wrong with an entry
    """What is wrong with an entry, in words."""


def forged(sequence: int) -> Fault:
    """The fault of a charge whose entry was made up."""
    return Fault(f"entry {sequence} was forged: the charge does not fit, or does not leave the state that it says")


class readable:  # noqa: N801 - it reads as a word
    """Turn what an entry lacks into a Fault."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KeyError | TypeError | ValueError | AttributeError | ArithmeticError | ImportError):
            what = f"it has no {error}" if isinstance(error, KeyError) else error
            raise Fault(f"entry {self._entry.sequence} cannot be read: {what}") from None
