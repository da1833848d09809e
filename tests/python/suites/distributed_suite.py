#!/usr/bin/env python3
"""Runs PyTorch's own tests of torch.distributed over Dabke, and ends with "N passed, N failed, N skipped".

    distributed_suite.py [--ranks 2 --ranks 3] [--seconds 120] [-k WORD] [--at-once 2] [--renew]

Each test that runs with Gloo must pass over Dabke, or stand in reasons.txt. A test that Dabke skips and Gloo
runs has failed. The outcomes with Gloo are in a file for each version of PyTorch; --renew writes it.
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "counting"))
from counts import with_reason, write_counts  # noqa: E402
from tables import SIZES, baseline_file, read_baseline, read_reasons, write_baseline  # noqa: E402

IMPORT_SECONDS = 8
DAY = int(os.environ.get("DABKE_TEST_DAY", str(datetime.date.today().toordinal())))


def run_tests(backend, ranks, tests, options):
    """Yields (test, outcome, seconds, reason). Without tests it runs all."""
    command = [sys.executable, str(HERE / "one_size.py"), backend, str(ranks), str(options.at_once)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*command, str(options.limit)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    ) as process:
        process.stdin.write("\n".join(tests))
        process.stdin.close()
        for line in process.stdout:
            yield tuple(json.loads(line))
    if process.returncode != 0:
        raise SystemExit(f"one_size.py ended with {process.returncode}")


def renew(version, options):
    outcomes = {}
    for ranks in SIZES:
        outcomes[ranks] = {}
        for name, outcome, seconds, reason in run_tests("gloo", ranks, [], options):
            outcomes[ranks][name] = outcome, seconds, reason
            if outcome == "failed":
                print(with_reason(f"failed with Gloo [{ranks} ranks] {name}", reason.splitlines()))
    write_baseline(version, outcomes)
    for ranks, of_size in outcomes.items():
        print(f"Gloo, {ranks} ranks:", dict(Counter(outcome for outcome, _, _ in of_size.values())))


def kind_of(test):
    """The first words of its name, such as all_reduce or ddp_join."""
    return "_".join(re.findall(r"[a-z]+|[A-Z]+[a-z]*", test.replace("test_", "", 1))[:2]).lower()


def choose(expected, budget_seconds):
    """Returns tests that take so long together, from all kinds in turn. Each day begins at another test.

    `expected` has seconds by test.
    """
    by_kind = defaultdict(list)
    for test in sorted(expected):
        by_kind[kind_of(test)].append(test)
    queues = []
    for tests in by_kind.values():
        begin = DAY % len(tests)
        queues.append(tests[begin:] + tests[:begin])
    begin = DAY % len(queues)
    queues = queues[begin:] + queues[:begin]
    chosen = []
    while any(queues):
        for queue in queues:
            test = queue.pop(0) if queue else None
            if test and expected[test] <= budget_seconds:
                budget_seconds -= expected[test]
                chosen.append(test)
    return chosen


def judge(test, outcome, reason, reasons):
    """Returns (outcome, reason) of a test that runs with Gloo."""
    if test in reasons:
        if outcome == "passed":
            return "failed", "it passes; remove it from reasons.txt"
        return "skipped", reasons[test]
    if outcome == "skipped":
        return "failed", f"it runs with Gloo, but was skipped: {reason}"
    return outcome, reason


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ranks", type=int, action="append", choices=SIZES, help="default: 2, 3 and 4")
    parser.add_argument("--seconds", type=float, help="run only so many seconds of tests, of all kinds")
    parser.add_argument("-k", dest="word", default="", help="only tests with this text in their names")
    parser.add_argument("--at-once", type=int, default=max(2, (os.cpu_count() or 1) // 2))
    parser.add_argument("--limit", type=float, default=120, help="seconds for a test")
    parser.add_argument("--renew", action="store_true", help="run Gloo, and write the file with its outcomes")
    parser.add_argument("--counts", type=Path, help="a file for the three numbers")
    options = parser.parse_args()
    version = importlib.metadata.version("torch")
    if options.renew:
        renew(version, options)
        return 0
    numbers, failures = Counter(passed=0, failed=0, skipped=0), []
    baseline = read_baseline(version)
    if not baseline:
        print(f"no {baseline_file(version).name}; --renew makes it. Nothing is run with PyTorch {version}.")
        numbers["skipped"] += 1
    sizes = options.ranks or SIZES
    for ranks in sizes:
        reasons = read_reasons(ranks)
        named = {test: row[ranks] for test, row in baseline.items() if options.word in test}
        runs = {test: cell for test, cell in named.items() if cell is not None}
        chosen = list(runs)
        if options.seconds is not None:
            seconds = options.seconds / len(sizes) - IMPORT_SECONDS
            chosen = choose(runs, seconds * options.at_once)
        else:
            numbers["skipped"] += len(named) - len(runs)
        for test, outcome, _, why in run_tests("dabke", ranks, chosen, options) if chosen else ():
            outcome, why = judge(test, outcome, why, reasons)
            numbers[outcome] += 1
            if outcome == "failed":
                failures.append(with_reason(f"FAILED [{ranks} ranks] {test}", why.splitlines()))
                print(failures[-1], flush=True)
    counted = [numbers[each] for each in ("passed", "failed", "skipped")]
    if options.counts:
        write_counts(options.counts, *counted, failures)
    print("{} passed, {} failed, {} skipped".format(*counted))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
