#!/usr/bin/env python3
"""Waits until the cores are far apart, and measures then.

How long a cache line takes from one core to another changes on virtual machines, for seconds to minutes, by a factor of three
and more. Every few seconds this measures it, and when it is long enough runs dabke-perf, whose rows say what it was meanwhile.

  benchmarks/when_far.py BUILD -- allreduce -np 2 --raw --backends shm,shm-plain,shm-streaming --peers mpi -b 64K -e 16M
  benchmarks/when_far.py BUILD                             looks alone, and says in the end what was seen

Ends with code 0 when it has measured (or was only to look), 3 when the cores were never far enough apart.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

LOOK = [
    "allreduce",
    "-np",
    "2",
    "--raw",
    "-b",
    "8",
    "-e",
    "8",
    "--runs",
    "5",
    "--seconds",
    "0.001",
    "--backends",
    "shm",
    "--peers",
    "none",
    "--mpi",
    "none",
    "--check",
    "0",
    "--quiet",
]


def line_ns(program):
    """What a line takes now: the median of some measurements; None where the cores had other work."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        done = subprocess.run([program, *LOOK, "--json", file.name], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{program} failed with {done.returncode}:\n{done.stderr}")
        measured = [ns for ns in json.load(open(file.name))["results"][0]["more"]["line_ns"] if ns > 0]
    return statistics.median(measured) if measured else None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="%(prog)s BUILD [OPTION ...] [-- ARGUMENT OF DABKE-PERF ...]",
    )
    parser.add_argument("build", help="a build folder (--buildtype=release)")
    parser.add_argument(
        "--least", type=float, default=100, metavar="NS", help="how far is far (default %(default)s ns)"
    )
    parser.add_argument("--minutes", type=float, default=60, help="look for so long (default %(default)s)")
    parser.add_argument(
        "--every", type=float, default=5, metavar="SECONDS", help="look so often (default %(default)s)"
    )
    parser.add_argument(
        "--times", type=int, default=1, help="measure in so many far phases, then end (default %(default)s)"
    )
    # By hand: argparse takes what follows -- for its own where an option stands between it and BUILD.
    own, measure = sys.argv[1:], []
    if "--" in own:
        at = own.index("--")
        own, measure = own[:at], own[at + 1 :]
    chosen = parser.parse_args(own)
    program = os.path.join(chosen.build, "benchmarks", "perf", "dabke-perf")
    seen, measured = [], 0
    end = time.monotonic() + chosen.minutes * 60
    while time.monotonic() < end and measured < chosen.times:
        now = line_ns(program)
        is_far = now is not None and now >= chosen.least
        what = (
            "the cores are busy" if now is None else f"a line takes {now:.0f} ns{': far' if is_far else ''}"
        )
        print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)
        if now is not None:
            seen.append(now)
        if not is_far or not measure:
            time.sleep(chosen.every)
            continue
        done = subprocess.run([program, *measure])
        if done.returncode != 0:
            return done.returncode
        measured += 1
    if seen:
        far = sum(one >= chosen.least for one in seen)
        print(
            f"looked {len(seen)} times: {min(seen):.0f} to {max(seen):.0f} ns, median {statistics.median(seen):.0f}; "
            f"{far} times {chosen.least:.0f} or more"
        )
    return 0 if measured or not measure else 3


if __name__ == "__main__":
    sys.exit(main())
