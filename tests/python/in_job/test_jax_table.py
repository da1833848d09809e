"""The table of docs/python/jax.md is correct: every public name of dabke.jax, with its arguments and
defaults."""

import pytest
from name_tables import NameTable

jax = pytest.importorskip("jax")
hvd = pytest.importorskip("dabke.jax")

TABLE = NameTable("jax.md", "## Every name", hvd)
pytestmark = pytest.mark.two_ranks


def test_the_table_is_whole():
    assert {name for name in TABLE.names if "." not in name} == set(hvd.__all__)
    assert {name for name in TABLE.names if "." in name} == {"elastic.run", "elastic.ObjectState"}


@pytest.mark.parametrize("row", TABLE.rows, ids=lambda row: row[0])
def test_a_name_has_the_arguments_of_the_table(row):
    TABLE.check(row)
