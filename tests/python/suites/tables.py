"""The data files of the suite: what Gloo's tests do, and which tests may fail over Dabke.

The baseline has a line for each test: its name, and its seconds in jobs of 2, 3 and 4 ranks. "-" stands for a
test that skips itself, "!" for a test that fails with Gloo, too.
"""

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
SIZES = (2, 3, 4)
SKIPPED, FAILED = "-", "!"
SECONDS_OF_A_FAILED_TEST = 5.0


def baseline_file(torch_version):
    return HERE / f"gloo_{'.'.join(torch_version.split('.')[:2])}.txt"


def read_baseline(torch_version):
    """Returns {test: {ranks: seconds}}, with None for the seconds of a test that skips itself."""
    rows = {}
    seconds = {SKIPPED: None, FAILED: SECONDS_OF_A_FAILED_TEST}
    for line in _lines(baseline_file(torch_version)):
        name, *cells = line.split()
        rows[name] = {
            ranks: seconds[cell] if cell in seconds else float(cell) for ranks, cell in zip(SIZES, cells)
        }
    return rows


def write_baseline(torch_version, outcomes):
    """Writes {ranks: {test: (outcome, seconds, reason)}} of Gloo."""
    names = sorted({name for of_size in outcomes.values() for name in of_size})
    cells = {"skipped": SKIPPED, "failed": FAILED}
    with open(baseline_file(torch_version), "w", encoding="utf-8") as file:
        print("# Gloo with PyTorch", torch_version, "- distributed_suite.py --renew", file=file)
        for name in names:
            row = [outcomes[ranks][name] for ranks in SIZES]
            print(name, *(cells.get(outcome, seconds) for outcome, seconds, _ in row), file=file)


def read_reasons(ranks):
    """Returns {test: reason} of the tests that cannot pass over Dabke in jobs of this size."""
    reasons = {}
    for line in _lines(HERE / "reasons.txt"):
        name, sizes, reason = re.fullmatch(r"(\w+)([ \d]*): (.*)", line).groups()
        if not sizes or str(ranks) in sizes.split():
            reasons[name] = reason
    return reasons


def _lines(file):
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        if line.strip() and not line.startswith("#"):
            yield line.strip()
