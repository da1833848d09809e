"""Writes the outcome of each test to $DABKE_TEST_OUTCOMES for run.py: one file per rank of a job, or one
file.

Jobs of more than two ranks run fewer tests, unless DABKE_TEST_MATRIX=full. They leave out those with the mark
`two_ranks`, which show there what they show with two. Of the variants of a parametrized test, they run one
half on one day, and the other half on the next.
"""

import json
import os
import zlib


def pytest_configure(config):
    config.addinivalue_line("markers", "two_ranks: jobs with more ranks leave this test out")


def pytest_collection_modifyitems(config, items):
    if int(os.environ.get("DABKE_SIZE", "1")) <= 2 or os.environ.get("DABKE_TEST_MATRIX") == "full":
        return
    day = int(os.environ.get("DABKE_TEST_DAY", "0"))

    def is_left_out(item):
        is_variant = hasattr(item, "callspec")
        is_of_other_day = (zlib.crc32(item.nodeid.encode()) + day) % 2 == 1
        return item.get_closest_marker("two_ranks") or (is_variant and is_of_other_day)

    dropped = [item for item in items if is_left_out(item)]
    config.hook.pytest_deselected(items=dropped)
    items[:] = [item for item in items if item not in dropped]


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
