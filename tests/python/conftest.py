"""Notes the outcome of each test for run.py, in $DABKE_TEST_OUTCOMES: a file for each rank of a job, or one."""

import json
import os


def note(report):
    """Written at once, so that what has been seen counts, whatever happens later."""
    folder = os.environ.get("DABKE_TEST_OUTCOMES")
    if "PYTEST_XDIST_WORKER" in os.environ:
        return  # it is told to the process that has started this one, where this function is called as well
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
    """A file that skips itself, whose tests nobody knows, is one that was skipped."""
    if report.skipped:
        note(report)
