#!/usr/bin/env python3
"""Runs the tests of one build directory and counts test cases.

    tests/counting/run.py BUILD_DIR [TEST...] [--suite NAME]... [--label NAME] [--counts FILE]
                          [--timeout-multiplier N] [--per-core N]

A Catch2 program counts as its test cases, any other test as one. Whatever cannot be counted is a failure:
- a program that crashed, hung, failed after its last test case, or ran no test case
- a test that Meson lists and did not run
- a build directory without tests

Ends with code 0 only if nothing failed. --counts writes "passed failed skipped" and, below it, the failures
with their reasons.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import xml.parsers.expat
from dataclasses import dataclass, field

from counts import with_reason, write_counts

WRAPPER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "wrapper.py")
REPORT_LINE = re.compile(r"^catch2 report: (.+)$", re.MULTILINE)
CPU_LINE = re.compile(r"^cpu seconds: ([0-9.]+)$", re.MULTILINE)
MOST_EXPENSIVE = 15  # the number of tests whose CPU time is printed
# The results as in Meson's testlog.json.
PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = "SKIP"
SKIP_MARK = "skipped: "  # the start of a warning of DABKE_SKIP (tests/skip.h)


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list = field(default_factory=list)  # one text each
    skips: list = field(default_factory=list)
    cpu_seconds: dict = field(default_factory=dict)  # of each test

    def fail(self, text):
        self.failed += 1
        self.failures.append(text)

    def skip(self, text):
        self.skipped += 1
        self.skips.append(text)


@dataclass
class CatchReport:
    """The content of a Catch2 XML report, which may end at any point."""

    passed: int = 0
    failed: list = field(default_factory=list)  # names
    skipped: list = field(default_factory=list)  # names, with the reasons
    unfinished: str = ""  # the test case that was running when the report ended
    # Lines about failed expressions of each test case, for people.
    details: dict = field(default_factory=dict)


def last_words(entry):
    return CPU_LINE.sub("", f"{entry.get('stdout') or ''}\n{entry.get('stderr') or ''}").splitlines()


def read_catch_report(path):
    report = CatchReport()
    stack, name, text, ok, why_skipped = [], "", "", None, ""

    def explain(line):
        report.details.setdefault(name, []).append(line)

    def start(tag, attributes):
        nonlocal name, text, ok, why_skipped
        stack.append(tag)
        text = ""
        if tag == "TestCase":
            name, ok, why_skipped = attributes.get("name", "?"), None, ""
        elif tag == "OverallResult" and stack[-2:-1] == ["TestCase"]:
            ok = attributes.get("success") == "true"
        elif tag in ("Expression", "Exception", "Failure", "FatalErrorCondition"):
            if attributes.get("success") != "true":
                explain(
                    f"{attributes.get('filename', '?')}:{attributes.get('line', '?')}: in '{name}': "
                    f"{attributes.get('type', tag)}"
                )

    def end(tag):
        nonlocal name, text, why_skipped
        stack.pop()
        if tag == "Warning" and text.strip().startswith(SKIP_MARK):
            why_skipped = text.strip().removeprefix(SKIP_MARK)
        elif tag in (
            "Original",
            "Expanded",
            "Exception",
            "Failure",
            "FatalErrorCondition",
            "Info",
            "Warning",
        ):
            if text.strip():
                explain(f"    {tag.lower()}: {text.strip()}")
        elif tag == "TestCase":
            if ok and why_skipped:
                report.skipped.append(f"{name} ({why_skipped})")
            elif ok:
                report.passed += 1
            else:
                report.failed.append(name)
            name = ""
        text = ""

    def characters(data):
        nonlocal text
        text += data

    parser = xml.parsers.expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, characters
    try:
        with open(path, "rb") as file:
            parser.ParseFile(file)
    except (OSError, xml.parsers.expat.ExpatError):
        pass  # the program did not reach its end; the report until then counts
    report.unfinished = name
    return report


def how_it_ended(entry):
    if entry["result"] == "TIMEOUT":
        return f"hung: stopped after {entry.get('duration', 0):.0f} s"
    code = entry.get("returncode", 0)
    if code < 0:
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    return f"ended with code {code}"


def count_entry(counts, entry):
    """Counts one line of testlog.json."""
    name, result = entry["name"], entry["result"]
    if used := CPU_LINE.search(entry.get("stdout") or ""):
        counts.cpu_seconds[name.rsplit(" / ", 1)[-1].rsplit(":", 1)[-1]] = float(used.group(1))
    match = REPORT_LINE.search(entry.get("stdout") or "")
    if not match:
        if result in PASSED:
            counts.passed += 1
        elif result == SKIPPED:
            counts.skip(name)
        else:
            counts.fail(with_reason(f"{name}: {how_it_ended(entry)}", last_words(entry)))
        return
    report = read_catch_report(match.group(1))
    counts.passed += report.passed
    for case in report.skipped:
        counts.skip(f"{name}: {case}")
    for case in report.failed:
        counts.fail(with_reason(f"{name}: {case}", report.details.get(case, [])))
    if report.unfinished:
        counts.fail(
            with_reason(
                f"{name}: {how_it_ended(entry)} in '{report.unfinished}'; what comes after it did not run",
                last_words(entry),
            )
        )
    if report.failed or report.unfinished:
        return
    if result == SKIPPED:
        counts.skip(name)
    elif result not in PASSED:
        counts.fail(
            with_reason(
                f"{name}: {how_it_ended(entry)} after {report.passed} test cases that passed",
                last_words(entry),
            )
        )
    elif not report.passed and not report.skipped:
        counts.fail(f"{name}: ran no test case")


def count_log(lines, expected_names):
    """Counts the lines of the log. `expected_names` are the tests that Meson was asked to run."""
    counts = Counts()
    missing = list(expected_names)
    for line in lines:
        if not line.strip():
            continue
        entry = json.loads(line)
        # The name is "room:test" or "project:room / test", depending on Meson's version and the test's
        # suites.
        name = entry["name"].rsplit(" / ", 1)[-1]
        for candidate in (name, name.rsplit(":", 1)[-1]):
            if candidate in missing:
                missing.remove(candidate)
                break
        count_entry(counts, entry)
    for name in missing:
        counts.fail(f"{name}: was not run")
    if counts.passed + counts.failed + counts.skipped == 0:
        counts.fail("there was no test to run")
    return counts


def meson_command():
    """The Meson that quickstart chose, or the one in PATH."""
    return os.environ.get("MESON", "meson")


def logs_in(folder):
    # Meson appends the wrapper's name to the log's name.
    return [
        os.path.join(folder, name)
        for name in os.listdir(folder)
        if name.startswith("dabke-tests") and name.endswith(".json")
    ]


def tests_in(build_dir, suites):
    """The names of the tests in one of the suites; of all tests if no suite is given."""
    listed = subprocess.run(
        [meson_command(), "introspect", "--tests", build_dir], check=True, capture_output=True
    )
    return [
        test["name"]
        for test in json.loads(listed.stdout)
        if not suites or any(suite.rsplit(":", 1)[-1] in suites for suite in test["suite"])
    ]


def run(build_dir, tests, suites, timeout_multiplier, per_core):
    folder = os.path.join(build_dir, "meson-logs")
    reports = os.path.join(folder, "catch2")
    shutil.rmtree(reports, ignore_errors=True)
    os.makedirs(reports)
    for log in logs_in(folder):
        os.remove(log)
    tests = tests or tests_in(build_dir, suites)
    # The settings of the calling user must not reach the tests.
    environment = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("DABKE_TEST_") or not name.startswith(("DABKE_", "HOROVOD_"))
    }
    environment["DABKE_TEST_REPORTS"] = os.path.abspath(reports)
    if not tests:
        return count_log([], [])  # an empty list would make Meson run all tests
    subprocess.run(
        [
            meson_command(),
            "test",
            "-C",
            build_dir,
            "--no-rebuild",
            "--print-errorlogs",
            "--num-processes",
            str(per_core * (os.cpu_count() or 1)),
            "--logbase",
            "dabke-tests",
            "--wrapper",
            shlex.join([sys.executable, WRAPPER]),
            "--timeout-multiplier",
            str(timeout_multiplier),
            *tests,
        ],
        env=environment,
        check=False,
    )
    lines = []
    for log in logs_in(folder):
        with open(log, encoding="utf-8", errors="replace") as file:
            lines += file
    return count_log(lines, tests)


def say_cpu_seconds(label, by_test):
    """Prints the CPU time of the tests. A waiting test costs nothing; a computing test makes others wait."""
    dearest = sorted(by_test.items(), key=lambda item: -item[1])[:MOST_EXPENSIVE]
    print(
        f"{label}CPU time: {sum(by_test.values()):.0f} s; of these",
        ", ".join(f"{name} {used:.0f}" for name, used in dearest),
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build_dir")
    parser.add_argument("--label", default="")
    parser.add_argument("--counts")
    parser.add_argument(
        "tests", nargs="*", metavar="TEST", help="as meson test --list names them; all, if none is given"
    )
    parser.add_argument(
        "--suite",
        action="append",
        default=[],
        metavar="NAME",
        help="where no TEST is given: unit, process, long or hosts; may be given again; all, if it is not",
    )
    parser.add_argument("--timeout-multiplier", type=float, default=1, metavar="N")
    # Two thirds of the time, tests wait for their processes and for time limits.
    parser.add_argument(
        "--per-core", type=int, default=3, metavar="N", help="how many tests run at a time for each core (3)"
    )
    options = parser.parse_args()
    # A background job may have signals ignored, and tests would inherit that.
    for number in signal.valid_signals():
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    counts = run(
        options.build_dir, options.tests, options.suite, options.timeout_multiplier, options.per_core
    )
    label = f"[{options.label}] " if options.label else ""
    for text in counts.skips:
        print(f"SKIPPED {label}{text}")
    failures = [f"FAILED {label}{text}" for text in counts.failures]
    for text in failures:
        print(text)
    if counts.cpu_seconds:
        say_cpu_seconds(label, counts.cpu_seconds)
    print(f"{label}{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped")
    if options.counts:
        write_counts(options.counts, counts.passed, counts.failed, counts.skipped, failures)
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
