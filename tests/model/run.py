#!/usr/bin/env python3
"""Explores every state of negotiation.pml with Spin, for one small job of three ranks at a time, and of
room.pml, baton.pml and elastic.pml.

    tests/model/run.py [--large] [--part K/N] [NAME...]

Runs the scenarios and mistakes whose names contain one of the NAMEs; all of them without a NAME. With
--part, every N-th of them, beginning with the K-th; K is a number from 1 to N, or "today" for another one
each day.

Ends with code 1 and prints the steps to the failure if one of these holds:
- a scenario breaks a property, was not explored to its end, or does not reach its events
- a seeded mistake is not found: a model that cannot fail proves nothing

--large runs longer jobs, for minutes. If such a job does not fit in memory, only a part is searched (Spin's
bitstate), and the line reports that. Ends with code 77 if Spin is missing.
"""

import argparse
import concurrent.futures
import datetime
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

from scenarios import MISTAKES, SCENARIOS

MODELS = pathlib.Path(__file__).resolve().parent
DEPTH = 20000  # steps of one run; far more than any has
MEMORY_MIB = 2500  # of one verifier
SKIPPED = 77
CACHE = ["ccache"] if shutil.which("ccache") else []
TREES = {"chain": [], "star": ["STAR"]}  # chain: 2 reports to 1 and 1 to 0; star: both report to 0


class Broken(Exception):
    pass


def call(folder, *command):
    return subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def must(folder, *command):
    done = call(folder, *command)
    if done.returncode != 0:
        raise Broken(f"{' '.join(command)}:\n{done.stdout}")
    return done.stdout


@dataclass
class Explored:
    violated: bool = False
    everything: bool = False
    states: str = "?"
    seconds: float = 0
    reached: tuple = ()
    said: str = ""
    trail: str = ""

    def line(self, name):
        how = (
            "every state" if self.everything else "until it was found" if self.violated else "NOT exhaustive"
        )
        return f"{name:32} {self.states:>9} states, {how}, {self.seconds:5.1f} s"


def readable(trail):
    """Returns the readable part of the output of spin -t: the model's prints, and the broken property."""
    lines = dict.fromkeys(line.strip() for line in trail.splitlines() if line.startswith("spin:"))
    lines = [line.strip() for line in trail.splitlines() if not line.startswith("spin:")] + list(lines)
    return "\n".join(
        "    " + line.lstrip("| ") if line.startswith("|") else "    " + line
        for line in lines
        if line.startswith(("| ", "spin:"))
        and "c_code" not in line
        and "trail ends" not in line
        and "important" not in line
        and "newer than" not in line
    )


def explore(model, macros, many=False, large=False, in_part=False):
    with tempfile.TemporaryDirectory(prefix="dabke-model-") as folder:
        defines = "".join(f"#define {macro}\n" for macro in macros)
        (pathlib.Path(folder) / "job.pml").write_text(
            f'{defines}#include "{MODELS / model}"\n', encoding="utf-8"
        )
        started = time.monotonic()
        must(folder, "spin", "-a", "job.pml")
        # The compiler takes half of all time, so a cache, if present, keeps its output.
        must(
            folder,
            *CACHE,
            "gcc",
            "-O1" if many or large else "-O0",
            "-w",
            "-DSAFETY",
            "-DNOREDUCE",
            "-DVECTORSZ=2048",
            "-DBITSTATE" if in_part else "-DCOLLAPSE",
            f"-DMEMLIM={MEMORY_MIB}",
            "-c",
            "-o",
            "pan.o",
            "pan.c",
        )
        must(folder, "gcc", "-o", "pan", "pan.o")
        table = "-w30" if in_part else "-w22" if large else "-w20" if many else "-w18"
        said = call(folder, "./pan", f"-m{DEPTH}", "-n", table).stdout
        result = Explored(said=said, seconds=time.monotonic() - started)
        errors = re.search(r"errors: (\d+)", said)
        states = re.search(r"(\S+) states, stored", said)
        result.states = f"{float(states.group(1)):.0f}" if states else "?"
        if errors is None or "out of memory" in said or "reached -DMEMLIM" in said:
            if large and not in_part:
                return explore(model, macros, many, large, in_part=True)
            raise Broken(said)
        result.violated = errors.group(1) != "0"
        result.everything = not (
            in_part
            or result.violated
            or "max search depth too small" in said
            or "Search not completed" in said
        )
        result.reached = tuple(re.findall(r"^reached: (.*)$", said, re.MULTILINE))
        if result.violated:
            result.trail = readable(call(folder, "spin", "-t", "-T", "job.pml").stdout)
        return result


def judge_scenario(name, scenario, tree):
    result = explore(scenario.model, scenario.macros + TREES[tree], scenario.many, scenario.large)
    line = result.line(f"{name}, {tree}")
    missing = [event for event in scenario.events if event not in result.reached]
    if result.violated:
        return False, f"{line}: VIOLATED\n{result.trail}"
    if missing:
        return False, f"{line}: NEVER REACHED: {'; '.join(missing)}"
    if not result.everything and not scenario.large:
        return False, f"{line}: NOT EXPLORED TO THE END\n{result.said}"
    return True, f"{line}: ok"


def judge_mistake(mistake, show_trail):
    scenario = SCENARIOS[mistake.scenario]
    result = explore(scenario.model, scenario.macros + TREES[mistake.tree] + [mistake.macro])
    line = result.line(f"mistake in {mistake.scenario}, {mistake.tree}")
    trail = f"\n{result.trail}" if show_trail else ""
    return result.violated, f"{line}: {'found' if result.violated else 'NOT FOUND'}: {mistake.what}{trail}"


def judge(job):
    try:
        return job()
    except Broken as broken:
        return False, f"could not be explored: {broken}"


def part_of(text):
    """Returns (K, N)."""
    found = re.fullmatch(r"(\d+|today)/([1-9]\d*)", text)
    if found:
        parts = int(found[2])
        first = datetime.date.today().toordinal() % parts + 1 if found[1] == "today" else int(found[1])
        if 1 <= first <= parts:
            return first, parts
    raise argparse.ArgumentTypeError(f"'{text}' is not K/N, such as 1/3 or today/3")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--large", action="store_true", help="longer jobs instead of the small ones")
    parser.add_argument("--trail", action="store_true", help="shows what led to each seeded mistake")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--part", type=part_of, default=(1, 1), metavar="K/N", help="only a part of the jobs")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    if shutil.which("spin") is None:
        print(
            "SKIPPED: the model of the negotiation needs Spin, the model checker. On Debian and Ubuntu: "
            "apt-get install spin"
        )
        return SKIPPED

    def chosen(name):
        return not options.names or any(part in name for part in options.names)

    jobs = [
        lambda n=name, s=scenario, t=tree: judge_scenario(n, s, t)
        for name, scenario in SCENARIOS.items()
        if scenario.large == options.large and chosen(name)
        for tree in scenario.trees
    ]
    if not options.large:
        jobs += [
            lambda m=mistake: judge_mistake(m, options.trail)
            for mistake in MISTAKES
            if chosen(mistake.scenario) or chosen(mistake.macro)
        ]
    if not jobs:
        print(f"No scenario is called {' or '.join(options.names)}; there are: {', '.join(SCENARIOS)}")
        return 1
    first, parts = options.part
    if parts > 1:
        jobs = jobs[first - 1 :: parts]
        print(f"part {first}/{parts}")
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        try:
            for good, line in pool.map(judge, jobs):
                print(line, flush=True)
                failed += not good
        except BaseException:  # stopped: jobs that have not begun do not begin, and folders are removed
            pool.shutdown(cancel_futures=True)
            raise
    print(f"{len(jobs) - failed} as expected, {failed} not")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
