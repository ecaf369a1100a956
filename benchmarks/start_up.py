"""How much processor time passes before anything is done?

Claims: `import osgt` needs at most 0.1 s, `osgt --help` and `osgt --version` at most 0.3 s. Beside them `import opendp`
where it is installed, else `import scipy.special`, which the first calculation imports here too.
"""

import os
import subprocess
import sys
from importlib.util import find_spec

from measure import print_table, say_if_busy


def processor_seconds(*arguments: str, repeats: int = 7) -> float:
    """The least user and system time of a Python process with these arguments."""
    times = []
    for _ in range(repeats):
        process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"python {' '.join(arguments)} ended with {process.returncode}")
        times.append(usage.ru_utime + usage.ru_stime)
    return min(times)


if __name__ == "__main__":
    say_if_busy()
    peer = "opendp" if find_spec("opendp") else "scipy.special"
    theirs = processor_seconds("-c", f"import {peer}")
    runs = [
        ("import osgt", ("-c", "import osgt"), 0.1),
        ("osgt --help", ("-m", "osgt", "--help"), 0.3),
        ("osgt --version", ("-m", "osgt", "--version"), 0.3),
    ]
    rows = []
    for name, arguments, bar in runs:
        ours = processor_seconds(*arguments)
        verdict = "met" if ours <= bar else "missed"
        rows.append([name, f"{1e3 * ours:.0f} ms", f"{theirs / ours:.1f} ×", f"≤ {1e3 * bar:.0f} ms", verdict])
    rows.append(["python, doing nothing", f"{1e3 * processor_seconds('-c', ''):.0f} ms", "", "", ""])
    print_table("Start", ["what", "processor time", f"import {peer} ({1e3 * theirs:.0f} ms)", "bar", ""], rows)
