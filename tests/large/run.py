#!/usr/bin/env python3
"""Runs tensors and objects of more than 2^31 bytes through every data backend
of the host, and compares every byte.

    PYTHONPATH=build-python/bindings/python \\
      python3 tests/large/run.py build-python/launcher/dabkerun [BACKEND...]

Ends with "N passed, N failed, N skipped". Each backend takes some minutes, and memory that is checked first.
So it is not a part of the test suites, which test the arithmetic of counts (`tests/runtime`, `tests/ops`).
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

RANK = Path(__file__).resolve().parent / "rank.py"
# The most that the ranks have together: an input, an output of the same
# size, a pickle, and a backend's staging.
NEEDED_GIB = 15
LIMIT_SECONDS = 1800


def dabkerun(path, *variables):
    return [
        path,
        "-np",
        "2",
        *(word for each in variables for word in ("-x", each)),
        sys.executable,
        str(RANK),
    ]


def commands(path):
    """Returns {backend: the command that runs it}."""
    found = {each: dabkerun(path, f"DABKE_CPU_OPERATIONS={each}") for each in ("shm", "tcp", "gloo")}
    for name, flags in (("mpich", []), ("openmpi", ["--allow-run-as-root", "--oversubscribe"])):
        if mpirun := shutil.which(f"mpirun.{name}"):
            found[f"mpi-{name}"] = [
                mpirun,
                *flags,
                "-np",
                "2",
                "env",
                "DABKE_CONTROLLER=mpi",
                "DABKE_CPU_OPERATIONS=mpi",
                sys.executable,
                str(RANK),
            ]
    return found


def free_gib():
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) / 2**20
    return 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dabkerun", type=os.path.abspath)
    parser.add_argument("backends", nargs="*", help="those to run; default: all that are there")
    options = parser.parse_args()
    known = commands(options.dabkerun)
    for each in options.backends:
        if each not in known:
            parser.error(f"there is no backend {each!r} here: give some of {', '.join(known)}")
    passed = failed = skipped = 0
    for name in options.backends or known:
        if free_gib() < NEEDED_GIB:
            print(f"SKIPPED {name}: {free_gib():.0f} GiB of memory are free, {NEEDED_GIB} are needed")
            skipped += 1
            continue
        print(f"{name}:", flush=True)
        try:
            code = subprocess.run(known[name], timeout=LIMIT_SECONDS).returncode
        except subprocess.TimeoutExpired:
            code = f"nothing within {LIMIT_SECONDS} s"
        passed, failed = passed + (code == 0), failed + (code != 0)
        if code != 0:
            print(f"FAILED {name}: {code}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
