"""The table of docs/python/keras.md lists every name of Horovod's API, with its arguments and defaults."""

import inspect
import re
from pathlib import Path

import keras
import pytest

import dabke.keras as hvd

PAGE = Path(__file__).resolve().parents[3] / "docs" / "python" / "keras.md"
SHORT = {"SC": "prescale_factor=1.0, postscale_factor=1.0", "PS": "process_set=global_process_set"}
NAMED_DEFAULTS = {"Compression.none": hvd.Compression.none, "global_process_set": hvd.global_process_set}
HOROVODS = """
DistributedOptimizer PartialDistributedOptimizer allreduce allgather broadcast reducescatter
broadcast_global_variables load_model Compression init shutdown is_initialized rank size local_rank local_size
cross_rank cross_size is_homogeneous mpi_threads_supported mpi_enabled mpi_built gloo_enabled gloo_built
nccl_built ddl_built ccl_built cuda_built rocm_built start_timeline stop_timeline ProcessSet global_process_set
add_process_set remove_process_set Average Sum Adasum Min Max Product
callbacks.BroadcastGlobalVariablesCallback callbacks.MetricAverageCallback
callbacks.LearningRateScheduleCallback callbacks.LearningRateWarmupCallback callbacks.BestModelCheckpoint
elastic.KerasState elastic.CommitStateCallback elastic.UpdateBatchStateCallback elastic.UpdateEpochStateCallback
""".split()


def rows():
    """The rows of the table of names, as (name, signature or None, differences)."""
    table = PAGE.read_text().split("## Every name of horovod.keras")[1]
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
    """The signature as the table writes it, without arguments that only Dabke has; and these arguments."""
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
    assert set(HOROVODS) <= names
    public = {name for name in hvd.__all__ if name not in ("callbacks", "elastic")}
    public |= {f"callbacks.{name}" for name in hvd.callbacks.__all__}
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
    for argument in ours if name != "init" else ():  # each backend's layer has its own
        assert f"`{argument}`" in differences


def test_numbers_of_reduce_operations_are_horovods():
    assert [hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product] == list(range(6))


def test_it_is_importable_under_the_name_of_tensorflow():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("imports TensorFlow")
    import dabke.tensorflow.keras as same
    from dabke.tensorflow.keras.callbacks import MetricAverageCallback

    assert same.DistributedOptimizer is hvd.DistributedOptimizer and same.__all__ == hvd.__all__
    assert (
        MetricAverageCallback is hvd.callbacks.MetricAverageCallback is same.callbacks.MetricAverageCallback
    )
