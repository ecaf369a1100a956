"""Runs one of the programs beside this file and prints JSON: `python run.py opendp_count '{"path": …}' 2`.

Only the standard library is needed here, as each program runs with the interpreter of its own virtual environment. What
a program imports, and what its `start()` does where it has one, is timed apart from its `release()`. With `noise` for
the number of repeats it releases once and tells the noise that the library reports.
"""

import importlib
import json
import os
import sys
import time
import warnings

if __name__ == "__main__":
    name, question, repeats = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
    warnings.simplefilter("ignore")
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else Spark's workers are of another environment
    begin = time.perf_counter()
    program = importlib.import_module(name)
    if hasattr(program, "start"):
        program.start()
    answer = {"start": time.perf_counter() - begin}
    seconds = []
    for _ in range(1 if repeats == "noise" else int(repeats)):
        begin = time.perf_counter()
        answer["counts"] = {int(key): float(count) for key, count in program.release(**question)}
        seconds.append(time.perf_counter() - begin)
    answer["seconds"] = min(seconds)
    if repeats == "noise":
        answer["noise_std"] = program.noise_std(**question)
    print(json.dumps(answer))
