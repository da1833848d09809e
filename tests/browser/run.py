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
LIMIT_SECONDS = 600


def outcome_of(case):
    if case.find('failure') is not None or case.find('error') is not None:
        return 'failed'
    return 'skipped' if case.find('skipped') is not None else 'passed'


def counts_of(report, code):
    """(passed, failed, skipped); what ended without a report, or ran nothing, is a failure."""
    cases = ElementTree.parse(report).findall('.//testcase') if report.exists() else []
    outcomes = [outcome_of(case) for case in cases]
    for case, outcome in zip(cases, outcomes):
        if outcome == 'failed':
            print(f'FAILED [browser] {case.get("name")}')
    failed = outcomes.count('failed')
    if not cases or (code != 0 and not failed):
        print(f'FAILED [browser] pytest ended with {code} after {len(cases)} tests')
        failed += 1
    return outcomes.count('passed'), failed, outcomes.count('skipped')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('build')
    parser.add_argument('--counts', type=Path, help='a file for the three numbers')
    options, arguments = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / 'report.xml'
        command = [sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider', '--tb=short', f'--junitxml={report}', str(HERE), *arguments]
        try:
            code = subprocess.run(command, env={**os.environ, 'DABKE_BUILD': options.build}, timeout=LIMIT_SECONDS, check=False).returncode
        except subprocess.TimeoutExpired:
            code = f'nothing within {LIMIT_SECONDS} s'
        counts = counts_of(report, code)
    if options.counts:
        options.counts.write_text(' '.join(map(str, counts)) + '\n')
    print('{} passed, {} failed, {} skipped'.format(*counts))
    return 1 if counts[1] else 0


if __name__ == '__main__':
    sys.exit(main())
