"""The table of docs/python/tensorflow.md is correct: every name of Horovod's API, with its arguments and
defaults."""

import pytest
from name_tables import NameTable

pytest.importorskip("tensorflow")
hvd = pytest.importorskip("dabke.tensorflow")

TABLE = NameTable("tensorflow.md", "## Every name of horovod.tensorflow", hvd)
pytestmark = pytest.mark.two_ranks


def test_the_table_is_whole():
    assert len(TABLE.names) > 65
    assert not {name for name in hvd.__all__ if name not in ("elastic", "data")} - TABLE.names


@pytest.mark.parametrize("row", TABLE.rows, ids=lambda row: row[0])
def test_a_name_has_the_arguments_of_the_table(row):
    TABLE.check(row)


def test_numbers_of_reduce_operations_are_horovods():
    assert [hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product] == list(range(6))
