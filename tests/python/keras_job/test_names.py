"""The table of docs/python/keras.md is correct: every name of Horovod's API, with its arguments and
defaults."""

import keras
import pytest
from name_tables import NameTable

import dabke.keras as hvd

TABLE = NameTable("keras.md", "## Every name of horovod.keras", hvd)
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


def test_the_table_is_whole():
    assert set(HOROVODS) <= TABLE.names
    public = {name for name in hvd.__all__ if name not in ("callbacks", "elastic")}
    public |= {f"callbacks.{name}" for name in hvd.callbacks.__all__}
    assert not public - TABLE.names


@pytest.mark.parametrize("row", TABLE.rows, ids=lambda row: row[0])
def test_a_name_has_the_arguments_of_the_table(row):
    TABLE.check(row)


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
