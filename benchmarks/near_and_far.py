#!/usr/bin/env python3
"""Compares shared memory with cores near and far apart, from results of dabke-perf.

The phases of a machine come and go, so the runs of one job may be in either phase. Each run has the time of a
cache line meanwhile. This program sorts the runs by that time, and compares each run with those that took
turns with it. It prints medians of the runs in all files, and leaves out what has fewer than three runs.

  dabke-perf allreduce -np 2 --raw --backends shm,shm-plain,shm-streaming --peers mpi -b 64K -f 4 --runs 15 \\
    --json seen.json
  benchmarks/near_and_far.py seen.json...
"""

import argparse
import collections
import json
import statistics
import sys

OWN = "dabke shm"


def phases_of(row, least):
    """Returns the numbers of a row's runs in each phase. A run without a time for a line is in neither."""
    lines = row["more"].get("line_ns", [])
    return {
        "near": [i for i, ns in enumerate(lines) if 0 < ns < least],
        "far": [i for i, ns in enumerate(lines) if ns >= least],
    }


def table(files, least):
    """Returns a dictionary for each phase, job and size, of the runs in all files."""
    seen = collections.defaultdict(lambda: collections.defaultdict(list))
    for results in files:
        jobs = collections.defaultdict(dict)
        for row in results:
            if row.get("path") == "raw":
                jobs[row["ranks"], row["memory"], row["bytes"], row["job"]][row["competitor"]] = row
        for (ranks, memory, size, job), by_name in jobs.items():
            own = by_name.get(OWN)
            if own is None:
                continue
            pairs = {
                "shm / plain": (OWN, "dabke shm-plain"),
                "streaming / plain": ("dabke shm-streaming", "dabke shm-plain"),
                "MPI / shm": (f"raw {job}", OWN),
            }
            for phase, runs in phases_of(own, least).items():
                into = seen[ranks, memory, phase, size, job]
                for i in runs:
                    into["line"].append(own["more"]["line_ns"][i])
                    into["us"].append(own["times_us"][i])
                for column, (one, two) in pairs.items():
                    if one in by_name and two in by_name:
                        into[column] += [
                            by_name[one]["times_us"][i] / by_name[two]["times_us"][i] for i in runs
                        ]
    rows = [
        {
            "ranks": ranks,
            "memory": memory,
            "phase": phase,
            "bytes": size,
            "job": job,
            "runs": len(columns["us"]),
            **{column: statistics.median(values) for column, values in columns.items() if values},
        }
        for (ranks, memory, phase, size, job), columns in seen.items()
        if len(columns["us"]) >= 3
    ]
    return sorted(
        rows, key=lambda row: (row["ranks"], row["memory"], row["phase"] == "far", row["bytes"], row["job"])
    )


def cell_of(column, value):
    if isinstance(value, str):
        return value
    digits = 2 if "/" in column else 1 if column == "us" and value < 100 else 0
    return f"{value:,.{digits}f}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="of dabke-perf's --json")
    parser.add_argument(
        "--least", type=float, default=100, metavar="NS", help="how far is far (default %(default)s ns)"
    )
    chosen = parser.parse_args()
    files = []
    for path in chosen.files:
        try:
            with open(path, encoding="utf-8") as file:
                files.append(list(json.load(file)["results"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            sys.exit(f"near_and_far.py: {path} is not what dabke-perf --json writes: {error}")
    rows = table(files, chosen.least)
    if not rows:
        sys.exit(
            "near_and_far.py: no row says how long a line took in three runs of a phase: "
            "give --raw to dabke-perf, with "
            "shm among its backends and 2 ranks or more"
        )
    columns = [
        "ranks",
        "memory",
        "phase",
        "bytes",
        "job",
        "runs",
        "line",
        "us",
        "shm / plain",
        "streaming / plain",
        "MPI / shm",
    ]
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(cell_of(column, row.get(column, "")) for column in columns) + " |")


if __name__ == "__main__":
    main()
