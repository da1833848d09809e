"""Writes the outcome of each test to $DABKE_TEST_OUTCOMES for run.py: one file per rank of a job, or one
file."""

import json
import os


def note(report):
    """Writes the outcome at once, so that it counts whatever happens later."""
    folder = os.environ.get("DABKE_TEST_OUTCOMES")
    if "PYTEST_XDIST_WORKER" in os.environ:
        return  # the worker reports it to its parent process, which calls this function too
    if folder:
        with open(os.path.join(folder, os.environ.get("DABKE_RANK", "alone")), "a") as file:
            file.write(
                json.dumps([report.nodeid, report.outcome, report.longreprtext if report.failed else ""])
                + "\n"
            )


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        note(report)


def pytest_collectreport(report):
    """Counts a file that skips itself as one skipped test, since its tests are unknown."""
    if report.skipped:
        note(report)
