"""How much processor time passes before anything is done?

Claims: `import osgt` needs at most 0.1 s, `osgt --help` and `osgt --version` at most 0.3 s, the help of `osgt release`
and a refusal at most 0.4 s, `from osgt import Dataset` at most 0.5 s. Beside them `import opendp` where it is
installed, else `import scipy.special`, which the first calculation imports here too. Modules are compiled beforehand,
as pip does when it installs them.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from subprocess import DEVNULL
from tempfile import TemporaryDirectory

from measure import print_table, say_if_busy

#: Where compiled modules are kept.
_COMPILED = TemporaryDirectory(prefix="osgt_start_up_")


def processor_seconds(*arguments: str, repeats: int = 7, code: int = 0) -> float:
    """The least user and system time of a Python process with these arguments, which ends with an exit code."""
    times = []
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = _COMPILED.name
    for _ in range(repeats + 1):  # the first one compiles
        process = subprocess.Popen([sys.executable, *arguments], stdout=DEVNULL, stderr=DEVNULL, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != code:
            raise RuntimeError(f"python {' '.join(arguments)} ended with {process.returncode}")
        times.append(usage.ru_utime + usage.ru_stime)
    return min(times)


if __name__ == "__main__":
    say_if_busy()
    peer = "opendp" if find_spec("opendp") else "scipy.special"
    theirs = processor_seconds("-c", f"import {peer}")
    runs = [
        ("import osgt", ("-c", "import osgt"), 0.1, 0),
        ("osgt --help", ("-m", "osgt", "--help"), 0.3, 0),
        ("osgt --version", ("-m", "osgt", "--version"), 0.3, 0),
        ("osgt release --help", ("-m", "osgt", "release", "--help"), 0.4, 0),
        ("osgt release, refused", ("-m", "osgt", "release"), 0.4, 2),
        ("from osgt import Dataset", ("-c", "from osgt import Dataset"), 0.5, 0),
    ]
    rows = []
    for name, arguments, bar, code in runs:
        ours = processor_seconds(*arguments, code=code)
        verdict = "met" if ours <= bar else "missed"
        rows.append([name, f"{1e3 * ours:.0f} ms", f"{theirs / ours:.1f} ×", f"≤ {1e3 * bar:.0f} ms", verdict])
    rows.append(["python, doing nothing", f"{1e3 * processor_seconds('-c', ''):.0f} ms", "", "", ""])
    print_table("Start", ["what", "processor time", f"import {peer} ({1e3 * theirs:.0f} ms)", "bar", ""], rows)
