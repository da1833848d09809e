"""The table of docs/python/tensorflow.md lists every name of Horovod's API, with its arguments and
defaults."""

import inspect
import re
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")
hvd = pytest.importorskip("dabke.tensorflow")

PAGE = Path(__file__).resolve().parents[3] / "docs" / "python" / "tensorflow.md"
SHORT = {"SC": "prescale_factor=1.0, postscale_factor=1.0", "PS": "process_set=global_process_set"}
NAMED_DEFAULTS = {"Compression.none": hvd.Compression.none, "global_process_set": hvd.global_process_set}


def rows():
    """(name, signature or None, differences) of each row of the table of names."""
    table = PAGE.read_text().split("## Every name of horovod.tensorflow")[1]
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
    if parameter.kind == parameter.VAR_KEYWORD:
        return f"**{parameter.name}"
    if parameter.default is parameter.empty:
        return parameter.name
    for name, value in NAMED_DEFAULTS.items():
        if parameter.default is value:
            return f"{parameter.name}={name}"
    default = parameter.default
    return f"{parameter.name}={default.name.title() if hasattr(default, 'name') else repr(default)}"


def signature_of(thing):
    """The signature as the table writes it, without arguments of ours alone; and these."""
    function = thing.__init__ if inspect.isclass(thing) else thing
    parameters = [each for each in inspect.signature(function).parameters.values() if each.name != "self"]
    ours = [each.name for each in parameters if each.kind == each.KEYWORD_ONLY]
    return f"({', '.join(text_of(each) for each in parameters if each.name not in ours)})", ours


def test_the_table_is_whole():
    names = {name for name, _, _ in ROWS}
    assert len(names) > 65
    assert not {name for name in hvd.__all__ if name not in ("elastic", "data")} - names
    for name, wanted, differences in ROWS:
        thing = named(name)
        if wanted is None:
            continue
        for short, text in SHORT.items():
            wanted = re.sub(rf"\b{short}\b", text, wanted)
        got, ours = signature_of(thing)
        assert got == wanted, name
        for argument in ours:
            assert f"`{argument}`" in differences, name


def test_numbers_of_reduce_operations_are_horovods():
    assert [hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product] == list(range(6))
