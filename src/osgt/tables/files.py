"""Files that are written as a whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path`; what is written there takes its place at the end, unless an error comes up."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(target.parent)!r} to write {target.name!r} into")
    if target.is_dir():
        raise IsADirectoryError(f"{str(target)!r} is a folder: give the name of a file")
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


#: For "out" and "report" the path asked for and the temporary file that is to take its place.
Places = dict[str, tuple[Path, Path]]


@contextmanager
def places_for(out: str | Path | None, report: str | Path | None) -> Iterator[Places]:
    """Temporary files beside the paths; they take their places at the end, unless an error comes up."""
    paths = {name: Path(path) for name, path in (("out", out), ("report", report)) if path is not None}
    if len({path.resolve() for path in paths.values()}) < len(paths):
        raise ValueError(f"out and report must be two files, got {str(out)!r} for both")
    with ExitStack() as stack:
        yield {name: (path, stack.enter_context(written_whole(path))) for name, path in paths.items()}


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
