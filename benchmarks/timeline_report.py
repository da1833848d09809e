#!/usr/bin/env python3
"""Measures the cost of `dabke-timeline report` for a large trace.

Records a real job (four ranks of examples/digits). Repeats its steps until the trace has the wanted size:
each time later, with orders, batches, arrows and steps of their own. Then reports the trace. Prints the
processor time of the process (user and system, independent of other work of the machine), the clock time, and
the memory. The limits are 30 s and 2 GB for 1 GB.

  benchmarks/timeline_report.py BUILD                   a release build; the trace goes to a folder in
                                                        $TMPDIR, which is removed
  benchmarks/timeline_report.py BUILD --gigabytes 0.1 --runs 3
"""

import argparse
import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import threading
import time

RANKS = 4
MOST_CPU_SECONDS, MOST_BYTES = 30, 2e9  # of 1 GB
# The numbers that differ between two repetitions of an event.
MOVING = re.compile(r'("ts":|"order":|"batch":"|"id":|"step":|"name":"step )(\d+(?:\.\d+)?)')


def record(build, folder):
    trace = os.path.join(folder, "job.json")
    done = subprocess.run(
        [
            os.path.join(build, "launcher/dabkerun"),
            "-np",
            str(RANKS),
            os.path.join(build, "examples/digits"),
            "--epochs",
            "4",
        ],
        env={**os.environ, "DABKE_TIMELINE": trace},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"the job that is recorded failed with {done.returncode}:\n{done.stderr}")
    return trace


class Event:
    """The text of an event, cut where a number changes from one repetition to the next."""

    def __init__(self, line, spans):
        self.texts, self.numbers = [], []
        at = 0
        for found in MOVING.finditer(line):
            self.texts.append(line[at : found.start(2)])
            kind, number = found[1], found[2]
            if kind == '"batch":"':  # 12.0: batch 0 of order 12
                order, dot, part = number.partition(".")
                self.numbers.append((int(order), spans["order"], dot + part))
            elif kind == '"ts":':
                self.numbers.append((float(number), spans["ts"], None))
            else:
                name = {'"order":': "order", '"id":': "id"}.get(kind, "step")
                self.numbers.append((int(number), spans[name], ""))
            at = found.end(2)
        self.texts.append(line[at:])

    def repeated(self, times):
        pieces = [self.texts[0]]
        for (number, span, end), text in zip(self.numbers, self.texts[1:]):
            moved = number + times * span
            pieces.append(f"{moved:.3f}" if end is None else f"{moved}{end}")
            pieces.append(text)
        return "".join(pieces)


def repeat(source, path, size):
    """Writes the trace. Returns how often it has the steps, and the number of events."""
    with open(source, encoding="utf-8") as file:
        lines = [line.rstrip(",\n") for line in file]
    events = [line for line in lines[1:] if '"ph":"' in line[:200]]  # one event per line
    metadata = [line for line in events if '"ph":"M"' in line]
    moving = [line for line in events if '"ph":"M"' not in line]
    largest = {"ts": 0.0, "order": 0, "id": 0, "step": 0}
    for line in moving:
        for found in MOVING.finditer(line):
            name = {'"ts":': "ts", '"order":': "order", '"batch":"': "order", '"id":': "id"}.get(
                found[1], "step"
            )
            largest[name] = max(largest[name], type(largest[name])(float(found[2])))
    spans = {name: value + 1 for name, value in largest.items()}
    cut = [Event(line, spans) for line in moving]
    times = 0
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit":"ms","traceEvents":[\n' + ",\n".join(metadata))
        while file.tell() < size:
            file.write(",\n" + ",\n".join(event.repeated(times) for event in cut))
            times += 1
        file.write("\n]}\n")
    return times, times * len(cut) + len(metadata)


def report(build, path):
    """Runs the report on a terminal.

    Returns (user and system seconds, seconds by the clock, bytes of memory, has shown a bar, output).
    """
    ours, theirs = pty.openpty()
    bar = bytearray()

    def read():
        try:
            while piece := os.read(ours, 4096):
                bar.extend(piece)
        except OSError:  # nothing writes to it any more
            pass

    reader = threading.Thread(target=read)
    reader.start()
    start = time.monotonic()
    process = subprocess.Popen(
        [os.path.join(build, "timeline_viewer/dabke-timeline"), "report", "--json", path],
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    out = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    wall = time.monotonic() - start
    reader.join()
    os.close(ours)
    if status != 0:
        sys.exit(f"dabke-timeline failed: {bar.decode(errors='replace')}")
    return used.ru_utime + used.ru_stime, wall, used.ru_maxrss * 1024, bar.count(b"%") > 5, json.loads(out)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build")
    parser.add_argument("--gigabytes", type=float, default=1.0, help="how large the trace is [1]")
    parser.add_argument("--runs", type=int, default=3, help="how often it is reported [3]")
    options = parser.parse_args()
    if options.gigabytes <= 0 or options.runs < 1:
        parser.error("the size and the number of runs must be more than 0")
    fits = True
    with tempfile.TemporaryDirectory(prefix="dabke-report-") as folder:
        path = os.path.join(folder, "trace.json")
        times, events = repeat(record(options.build, folder), path, options.gigabytes * 1e9)
        print(
            f"{os.path.getsize(path) / 1e9:.2f} GB, {events:,} events: a job of {RANKS} ranks, {times} times",
            flush=True,
        )
        for _ in range(options.runs):
            cpu, wall, memory, has_bar, said = report(options.build, path)
            print(
                f"{cpu:.1f} s of one core, {wall:.1f} s by the clock, {memory / 1e6:.0f} MB, "
                f"{len(said['steps']):,} steps"
                f"{'' if has_bar else ', no progress bar'}",
                flush=True,
            )
            fits &= cpu < MOST_CPU_SECONDS * options.gigabytes + 1 and memory < MOST_BYTES and has_bar
            fits &= len(said["steps"]) > times and len(said["ranks"]) == RANKS
    if not fits:
        sys.exit("that is more than 30 s or 2 GB of memory for 1 GB, or not all of it was read")


if __name__ == "__main__":
    main()
