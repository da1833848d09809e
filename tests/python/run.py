#!/usr/bin/env python3
"""Runs the tests of the Python package, and ends with "N passed, N failed, N skipped".

    run.py DABKERUN [--np 2 --np 4] [--only in_job|programs] [PYTEST ARGUMENT...]

tests/python/in_job runs in all ranks of a job, once for each --np: a test has passed where it has on every rank.
tests/python/programs runs in this process's place, and starts jobs of its own.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYTEST = [sys.executable, '-m', 'pytest', '-q', '--no-header', '-p', 'no:cacheprovider', '--tb=short']
LIMIT_SECONDS = 1200  # of each part; a wheel may have to be compiled


def outcome_of(outcomes):
    """One for all ranks; None stands for a rank that did not come so far."""
    if all(each == outcomes[0] for each in outcomes) and outcomes[0] is not None:
        return outcomes[0]
    return 'failed'


def run_limited(command, env):
    """The exit code, or a text that says that it took too long."""
    with subprocess.Popen(command, env=env) as process:
        try:
            return process.wait(LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()  # dabkerun ends its ranks
            return f'nothing within {LIMIT_SECONDS} s'


def outcomes_in(file):
    """{test: outcome} of the lines that a conftest has written: the last of each test, but a failure stays one."""
    outcomes = {}
    for line in file.read_text().splitlines():
        test, outcome = json.loads(line)
        if outcomes.get(test) != 'failed':
            outcomes[test] = outcome
    return outcomes


def counted(label, outcomes, code):
    counts = Counter(outcomes.values())
    for test, outcome in sorted(outcomes.items()):
        if outcome == 'failed':
            print(f'FAILED [{label}] {test}')
    if not outcomes or (code not in (0, 1)) or (code == 1 and not counts['failed']):
        print(f'FAILED [{label}] pytest ended with {code} after {len(outcomes)} tests')
        counts['failed'] += 1
    return counts


def in_job(dabkerun, ranks, arguments):
    with tempfile.TemporaryDirectory() as folder:
        code = run_limited([dabkerun, '-np', str(ranks), *PYTEST, str(HERE / 'in_job'), *arguments],
                           {**os.environ, 'DABKE_TEST_OUTCOMES': folder})
        seen = [outcomes_in(file) for file in Path(folder).iterdir()]
    seen += [{}] * (ranks - len(seen))
    tests = {test for each in seen for test in each}
    return counted(f'python, {ranks} ranks', {test: outcome_of([each.get(test) for each in seen]) for test in tests}, code)


def programs(dabkerun, arguments):
    with tempfile.NamedTemporaryFile() as file:
        code = run_limited([*PYTEST, str(HERE / 'programs'), *arguments],
                           {**os.environ, 'DABKE_TEST_OUTCOMES': file.name, 'DABKERUN': dabkerun})
        return counted('python', outcomes_in(Path(file.name)), code)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('dabkerun')
    parser.add_argument('--np', type=int, action='append')
    parser.add_argument('--only', choices=('in_job', 'programs'))
    parser.add_argument('--counts', type=Path, help='a file for the three numbers')
    options, arguments = parser.parse_known_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell has started this in the background
    options.dabkerun = os.path.abspath(options.dabkerun)
    counts = Counter()
    if options.only != 'programs':
        for ranks in options.np or (2, 4):
            counts += in_job(options.dabkerun, ranks, arguments)
    if options.only != 'in_job':
        counts += programs(options.dabkerun, arguments)
    numbers = [counts[each] for each in ('passed', 'failed', 'skipped')]
    if options.counts:
        options.counts.write_text(' '.join(map(str, numbers)) + '\n')
    print('{} passed, {} failed, {} skipped'.format(*numbers))
    return 1 if counts['failed'] else 0


if __name__ == '__main__':
    sys.exit(main())
