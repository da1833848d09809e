"""Tests that start jobs of their own: small programs, under dabkerun or alone.

Of a test with parameters, a run takes one variant, another one each day: a job of programs that import
PyTorch needs seconds of computing. A test with the mark `every_variant` runs in all of its variants, and with
DABKE_TEST_MATRIX=full every test does. DABKE_TEST_DAY takes the variants of another day.
"""

import os
import subprocess
import sys
import textwrap

import pytest


def pytest_configure(config):
    config.addinivalue_line("markers", "every_variant: each run takes all variants of this test")


def pytest_collection_modifyitems(config, items):
    if os.environ.get("DABKE_TEST_MATRIX") == "full":
        return
    day = int(os.environ["DABKE_TEST_DAY"])
    variants = {}
    for item in items:
        is_one = item.get_closest_marker("every_variant") is None
        variants.setdefault(item.nodeid.partition("[")[0] if is_one else item.nodeid, []).append(item)
    kept = {each[day % len(each)] for each in variants.values()}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


class Ended:
    """A program that has ended."""

    def __init__(self, code, output):
        self.code, self.output = code, output

    def lines_of(self, rank):
        """The lines that a rank has printed on its standard output."""
        mark = f"[{rank}]<stdout>:"
        return [line[len(mark) :] for line in self.output.splitlines() if line.startswith(mark)]


@pytest.fixture
def program(tmp_path):
    """Returns a function that writes a program and returns its path."""

    def write(text, name="train.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return path

    return write


def ended(command, limit, env=None):
    done = subprocess.run(
        [str(each) for each in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=limit,
        env={**os.environ, **(env or {})},
    )
    return Ended(done.returncode, done.stdout)


@pytest.fixture
def run(program):
    """Returns a function that runs the text of a program in `ranks` ranks of one job. No test waits for its
    limit. With `to_the_last`, ranks that outlive another one report what they saw: dabkerun cannot end them
    early, however slow the machine is."""

    def run_text(text, ranks=2, arguments=(), limit=300, env=None, to_the_last=False):
        command = [sys.executable, program(text), *arguments]
        if to_the_last:
            command = ["--grace-period", "100", "sh", "-c", 'trap "" TERM; exec "$@"', "sh", *command]
        if ranks:
            command = [os.environ["DABKERUN"], "-np", str(ranks), *command]
        return ended(command, limit, env)

    return run_text
