"""What can go wrong after the charge. Before it, errors are those of Python: ValueError, TypeError, OSError."""


class NothingReleasedError(RuntimeError):
    """The budget was charged and the data may have been read, but nothing came out.

    Whether this happens may depend on single rows, and so may the error behind it, which is kept as `__cause__` for
    whoever may see the data. The message is always the same and quotes nothing.
    """

    def __init__(self, *, charged: bool) -> None:
        stands = "The charge to the ledger stands. " if charged else ""
        super().__init__(
            f"Nothing was released: reading the data failed after the budget was charged. {stands}"
            "The reason is not shown, because it may quote the data. Do not publish that this happened: it may depend "
            "on the data of one person."
        )


class NotSettledError(OSError):
    """The release is out, but the ledger could not be told. The charge stands, and nothing has to be released again.

    Attributes
    ----------
    command : str
        The command that tells the ledger later. `Release.settle` does that, too.
    """

    def __init__(self, reason: str, *, command: str) -> None:
        super().__init__(
            f"The table is in place, but the ledger could not be told: {reason.rstrip('.')}. The charge stands; do not "
            f"release again. When the ledger is back, run `{command}`."
        )
        self.command = command
