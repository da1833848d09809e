"""Runs tests of PyTorch's with one backend and one number of ranks, several tests at once.

    one_size.py BACKEND RANKS AT_ONCE LIMIT_SECONDS < NAMES

Without names it runs all tests. It prints a line of JSON for each test: [name, outcome, seconds, reason].
The number of ranks and the backend are fixed when the tests are imported, so each has a process.
"""

import json
import os
import sys
import time

from forked_test import ForkedTest
from torch_tests import load, names_of, skip_codes


def main():
    backend, ranks, at_once = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    limit_seconds = float(sys.argv[4])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the imports print
    tests = load(backend, ranks)
    codes = skip_codes()
    waiting = sys.stdin.read().split() or names_of(tests)
    running = []
    while waiting or running:
        while waiting and len(running) < at_once:
            running.append(ForkedTest(tests, waiting.pop(0), ranks, limit_seconds, codes))
        for test in list(running):
            seconds, outcome = test.seconds, test.poll()
            if outcome:
                running.remove(test)
                print(json.dumps([test.name, outcome[0], round(seconds, 1), outcome[1]]), file=answers)
                answers.flush()
        time.sleep(0.02)


if __name__ == "__main__":
    main()
