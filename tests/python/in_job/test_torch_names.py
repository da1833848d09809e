"""The table of docs/python/pytorch.md is correct: every name of Horovod's API, with its arguments and
defaults."""

import inspect
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
hvd = pytest.importorskip("dabke.torch")

PAGE = Path(__file__).resolve().parents[3] / "docs" / "python" / "pytorch.md"
SHORT = {"SC": "prescale_factor=1.0, postscale_factor=1.0", "PS": "process_set=global_process_set"}
NAMED_DEFAULTS = {"Compression.none": hvd.Compression.none, "global_process_set": hvd.global_process_set}


def rows():
    """The rows of the table of names, as (name, signature or None, differences)."""
    table = PAGE.read_text().split("## Every name of horovod.torch")[1]
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("| `") or len(cells) != 3:
            continue
        signature = re.fullmatch(r"`(\(.*\))`", cells[1])
        for name in re.findall(r"`([\w.]+)`", cells[0]):
            yield name, signature and signature[1], cells[2]


ROWS = list(rows())


def named(path):
    found = hvd
    for part in path.split("."):
        found = getattr(found, part)
    return found


def text_of(parameter):
    if parameter.default is parameter.empty:
        return parameter.name
    for name, value in NAMED_DEFAULTS.items():
        if parameter.default is value:
            return f"{parameter.name}={name}"
    default = parameter.default
    return f"{parameter.name}={default.name.title() if hasattr(default, 'name') else repr(default)}"


def signature_of(function):
    """Returns the signature as the table writes it, without arguments that only Dabke has, and these
    arguments."""
    parameters = [each for each in inspect.signature(function).parameters.values() if each.name != "self"]
    ours = [each.name for each in parameters if each.kind == each.KEYWORD_ONLY]
    theirs = [
        f"**{each.name}" if each.kind == each.VAR_KEYWORD else text_of(each)
        for each in parameters
        if each.name not in ours
    ]
    return f"({', '.join(theirs)})", ours


def test_the_table_is_whole():
    names = {name for name, _, _ in ROWS}
    assert len(names) > 75
    public = {name for name in hvd.__all__ if name not in ("elastic", "mpi_ops")}
    assert not public - names


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_name_has_the_arguments_of_the_table(row):
    name, wanted, differences = row
    thing = named(name)
    if wanted is None:
        return
    for short, text in SHORT.items():
        wanted = re.sub(rf"\b{short}\b", text, wanted)
    got, ours = signature_of(thing)
    assert got == wanted
    for argument in ours:
        assert f"`{argument}`" in differences


def test_numbers_of_reduce_operations_are_horovods():
    assert [hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product] == list(range(6))
