#!/usr/bin/env python3
"""Waits until the cores are far apart, and then measures.

On virtual machines, the time of a cache line from one core to another changes by a factor of three and more,
for seconds to minutes. This program measures that time every few seconds. Once it is long enough, it runs
dabke-perf, whose rows have the time during the run.

  benchmarks/when_far.py BUILD -- allreduce -np 2 --raw --backends shm,shm-plain,shm-streaming --peers mpi \\
                                  -b 64K -e 16M
  benchmarks/when_far.py BUILD                             only watches, and prints the times in the end

Ends with code 0 when it has measured (or was only to watch), 3 when the cores were never far enough apart.
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
    """Returns the time of a line now: the median of some measurements; None if the cores had other work."""
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
    # Split by hand: argparse would take the words after -- for its own if
    # an option is between them and BUILD.
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
            f"looked {len(seen)} times: {min(seen):.0f} to {max(seen):.0f} ns, "
            f"median {statistics.median(seen):.0f}; "
            f"{far} times {chosen.least:.0f} or more"
        )
    return 0 if measured or not measure else 3


if __name__ == "__main__":
    sys.exit(main())
