#!/usr/bin/env python3
"""Runs the browser tests and counts them: run.py BUILD_DIR [--counts FILE] [PYTEST ARGUMENT...]"""

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "counting"))
from counts import with_reason, write_counts  # noqa: E402

LIMIT_SECONDS = 1800


def outcome_of(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "skipped" if case.find("skipped") is not None else "passed"


def why_failed(case):
    return (
        next(each for each in (case.find("failure"), case.find("error")) if each is not None)
        .get("message", "")
        .splitlines()
    )


def counts_of(report, code):
    """Returns (passed, failed, skipped), and a text per failure. A run without a report, or without tests, is
    a failure."""
    cases = ElementTree.parse(report).findall(".//testcase") if report.exists() else []
    outcomes = [outcome_of(case) for case in cases]
    failures = [
        with_reason(f"FAILED [browser] {case.get('name')}", why_failed(case))
        for case, outcome in zip(cases, outcomes)
        if outcome == "failed"
    ]
    if not cases or (code != 0 and not failures):
        failures.append(f"FAILED [browser] pytest ended with {code} after {len(cases)} tests")
    return (outcomes.count("passed"), len(failures), outcomes.count("skipped")), failures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--counts", type=Path, help="a file for the three numbers")
    options, arguments = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--tb=short",
            f"--junitxml={report}",
            str(HERE),
            *arguments,
        ]
        try:
            code = subprocess.run(
                command, env={**os.environ, "DABKE_BUILD": options.build}, timeout=LIMIT_SECONDS, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            code = f"nothing within {LIMIT_SECONDS} s"
        counts, failures = counts_of(report, code)
    for text in failures:
        print(text)
    if options.counts:
        write_counts(options.counts, *counts, failures)
    print("{} passed, {} failed, {} skipped".format(*counts))
    return 1 if counts[1] else 0


if __name__ == "__main__":
    sys.exit(main())
