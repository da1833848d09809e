"""The table of docs/python/jax.md is correct: every public name of dabke.jax, with its arguments and
defaults."""

import inspect
import re
from pathlib import Path

import pytest

jax = pytest.importorskip("jax")
hvd = pytest.importorskip("dabke.jax")

PAGE = Path(__file__).resolve().parents[3] / "docs" / "python" / "jax.md"


def rows():
    """The rows of the table of names, as (name, signature or None, remarks)."""
    for line in PAGE.read_text().split("## Every name")[1].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 3:
            signature = re.fullmatch(r"`(\(.*\))`", cells[1])
            for name in re.findall(r"`([\w.]+)`", cells[0]):
                yield name, signature and signature[1], cells[2]


ROWS = list(rows())


def text_of(parameter):
    default = parameter.default
    if default is parameter.empty:
        return f"**{parameter.name}" if parameter.kind == parameter.VAR_KEYWORD else parameter.name
    if default is hvd.global_process_set:
        return f"{parameter.name}=global_process_set"
    return f"{parameter.name}={default.name.title() if hasattr(default, 'name') else repr(default)}"


def test_the_table_is_whole():
    assert {name for name, _, _ in ROWS} == set(hvd.__all__)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_name_has_the_arguments_of_the_table(row):
    name, wanted, remarks = row
    thing = getattr(hvd, name)
    if wanted is None:
        return
    parameters = [each for each in inspect.signature(thing).parameters.values() if each.name != "self"]
    ours = [each.name for each in parameters if each.kind == each.KEYWORD_ONLY]
    given = ", ".join(text_of(each) for each in parameters if each.name not in ours)
    assert f"({given})" == wanted.replace("PS", "process_set=global_process_set")
    for argument in ours:
        assert f"`{argument}`" in remarks
