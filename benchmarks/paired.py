#!/usr/bin/env python3
"""Compares two builds of Dabke: is one of them faster?

Runs dabke-perf of both builds, taking turns. Prints for each figure the median of the paired ratios
(after / before, so less than 1 is faster). The 96 % interval assumes no distribution. If it includes 1,
the builds do not differ measurably.

  benchmarks/paired.py BUILD_BEFORE BUILD_AFTER            both of --buildtype=release, on an idle machine
  benchmarks/paired.py --rounds 31 --only P3 before/build build
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

ALONE = ["--backends", "shm", "--peers", "none", "--mpi", "none", "--check", "0", "--quiet", "--runs", "1"]
# The measurement for each target of docs/performance.md.
MEASURES = {
    "P1": ["allreduce", "-np", "2", "--raw", "-b", "8", "-e", "16M", "-f", "128", "--seconds", "0.05"],
    "P2": [
        "allreduce",
        "-np",
        "2",
        "--raw",
        "--memory",
        "dabke",
        "-b",
        "1M",
        "-e",
        "16M",
        "-f",
        "16",
        "--seconds",
        "0.05",
    ],
    "P3": ["allreduce", "-np", "2", "--latency", "--seconds", "0.2"],
    "P4": ["-np", "2", "--model", "resnet50", "--seconds", "0.3"],
    "P5": ["-np", "2", "--tensors", "10000", "--seconds", "0.3"],
}


def run(build, arguments):
    """Returns the times of one run, in us, by what was measured."""
    program = os.path.join(build, "benchmarks", "perf", "dabke-perf")
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        done = subprocess.run(
            [program, *arguments, *ALONE, "--json", file.name], capture_output=True, text=True
        )
        if done.returncode != 0:
            sys.exit(f"{program} failed with {done.returncode}:\n{done.stderr}")
        results = json.load(open(file.name))["results"]
    return {
        f"{one['bytes']} B": statistics.median(one["times_us"])
        for one in results
        if one["competitor"] == "dabke shm"
    }


def interval(ratios):
    """Returns the two sorted ratios between which the median lies, with at
    least 96 % (or all that there are)."""
    ordered, n = sorted(ratios), len(ratios)
    low = 0
    while low + 1 < n // 2 and 2 * sum(math.comb(n, k) for k in range(low + 2)) / 2**n <= 0.04:
        low += 1
    return ordered[low], ordered[n - 1 - low]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", help="a build folder")
    parser.add_argument("after", help="another")
    parser.add_argument("--rounds", type=int, default=15, help="pairs of runs (default %(default)s)")
    parser.add_argument(
        "--only", choices=MEASURES, action="append", help="one of the targets; may be given again"
    )
    chosen = parser.parse_args()
    print("target  what               before us     after us   ratio  interval        told apart")
    for target in chosen.only or MEASURES:
        seen = {}
        for round_number in range(chosen.rounds):
            order = [chosen.before, chosen.after] if round_number % 2 == 0 else [chosen.after, chosen.before]
            times = {build: run(build, MEASURES[target]) for build in order}
            for what, time in times[chosen.before].items():
                seen.setdefault(what, []).append((time, times[chosen.after][what]))
            if sys.stderr.isatty():
                print(
                    f"\r{target}: {round_number + 1} of {chosen.rounds}",
                    end="\r",
                    file=sys.stderr,
                    flush=True,
                )
        for what, pairs in seen.items():
            ratios = [after / before for before, after in pairs]
            low, high = interval(ratios)
            before, after = (statistics.median(column) for column in zip(*pairs))
            verdict = "no" if low <= 1 <= high else "faster" if high < 1 else "SLOWER"
            print(
                f"{target:6}  {what:14} {before:13.2f} {after:12.2f}  {statistics.median(ratios):6.3f}  "
                f"{low:.3f} - {high:.3f}   {verdict}",
                flush=True,
            )


if __name__ == "__main__":
    main()
