"""Collectives on single values, sharding, and what TensorFlow's steps need."""

import warnings

import keras
import numpy
import pytest
from models import batches_of, close, fit, model, trained_by_numpy

import dabke.keras as hvd

on = keras.backend.backend()
only_tensorflow = pytest.mark.skipif(on != "tensorflow", reason="about TensorFlow")
DTYPES = ["float32", "float16", "bfloat16", "int32", "int8", "uint8"] + (
    ["float64", "int64"] if on != "jax" else []
)


def rows_of(rank, dtype, rows=2):
    return keras.ops.cast(keras.ops.full((rows, 3), rank + 1), dtype)


def number(value):
    return keras.ops.convert_to_numpy(keras.ops.cast(value, "float32"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_collectives_on_values(job, dtype):
    mine, ranks = rows_of(job.rank, dtype), range(1, job.size + 1)
    total = sum(ranks)
    reduced = hvd.allreduce(mine, op=hvd.Sum, name="sum")
    assert keras.ops.is_tensor(reduced) and keras.backend.standardize_dtype(reduced.dtype) == dtype
    close(number(reduced), numpy.full((2, 3), total))
    close(number(hvd.allreduce(mine, op=hvd.Max)), numpy.full((2, 3), job.size))
    gathered = number(hvd.allgather(mine, name="rows"))
    close(gathered, numpy.repeat(ranks, 2)[:, None] * numpy.ones((1, 3)))
    for root in range(job.size):
        close(number(hvd.broadcast(mine, root)), numpy.full((2, 3), root + 1))
    scattered = hvd.reducescatter(rows_of(job.rank, dtype, job.size), op=hvd.Sum)
    close(number(scattered), numpy.full((1, 3), total))


def test_average_sum_and_factors(job):
    mean = (job.size + 1) / 2
    value = numpy.full(5, job.rank + 1, "float32")
    assert number(hvd.allreduce(value)).tolist() == [mean] * 5
    assert number(hvd.allreduce(value, average=True)).tolist() == [mean] * 5
    assert number(hvd.allreduce(value, average=False)).tolist() == [mean * job.size] * 5
    assert number(hvd.allreduce(value, None, None, 2.0, 0.5)).tolist() == [mean] * 5
    assert number(hvd.allreduce(value, compression=hvd.Compression.fp16)).tolist() == [mean] * 5
    assert float(hvd.allreduce(job.rank + 1.0)) == mean
    with pytest.raises(ValueError, match="pass only op"):
        hvd.allreduce(value, average=True, op=hvd.Sum)


def test_objects_travel(job):
    assert hvd.broadcast_object({"rank": job.rank}, root_rank=job.size - 1) == {"rank": job.size - 1}
    assert hvd.allgather_object(job.rank) == list(range(job.size))


def test_shards_are_even_unless_the_program_wants_every_row(job):
    x = numpy.arange(4 * job.size + 1)
    assert hvd.shard(x).tolist() == [job.rank + i * job.size for i in range(len(x) // job.size)]
    parts = hvd.shard(x, 10 * x, even=False)
    assert parts[0].tolist() == list(range(job.rank, len(x), job.size))
    assert parts[1].tolist() == [10 * each for each in parts[0]]
    assert len(set(hvd.allgather_object(len(hvd.shard(x))))) == 1
    tensor = keras.ops.convert_to_tensor(x.astype("float32"))
    assert number(hvd.shard(tensor)).tolist() == hvd.shard(x).tolist()
    with pytest.raises(ValueError, match="same length"):
        hvd.shard(x, x[1:])
    with pytest.raises(ValueError, match="too few"):
        hvd.shard(x[: job.size - 1])


@only_tensorflow
def test_xla_is_turned_off_for_a_step_with_a_notice(job):
    x, y = job.data(8 * job.size)
    made = model(hvd.DistributedOptimizer(keras.optimizers.SGD(0.05)), jit_compile=True)
    start = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        fit(made, *job.own(x, y), 4, callbacks=[start, hvd.callbacks.MetricAverageCallback()])
    assert sum("without XLA" in str(each.message) for each in seen) == (job.rank == 0)
    close(made.get_weights(), trained_by_numpy(batches_of(x, y, 4 * job.size), 0.05))


@only_tensorflow
def test_a_step_that_xla_would_compile_is_refused_without_a_callback(job):
    if job.size < 2:
        pytest.skip("needs two ranks")
    made = model(hvd.DistributedOptimizer(keras.optimizers.SGD(0.05)), jit_compile=True)
    with pytest.raises(Exception, match="XLA|jit_compile"):
        fit(made, *job.data(8), 4)


def test_steps_may_run_eagerly(job):
    x, y = job.data(8 * job.size)
    together = model(hvd.DistributedOptimizer(keras.optimizers.SGD(0.05)), run_eagerly=True)
    fit(together, *job.own(x, y), 4)
    close(together.get_weights(), trained_by_numpy(batches_of(x, y, 4 * job.size), 0.05))


@pytest.mark.skipif(on == "torch", reason="Keras on PyTorch has one step per execution")
def test_several_steps_per_execution(job):
    x, y = job.data(4 * 6 * job.size)
    together = model(hvd.DistributedOptimizer(keras.optimizers.SGD(0.05)), steps_per_execution=3)
    fit(together, *job.own(x, y), 4)
    close(together.get_weights(), trained_by_numpy(batches_of(x, y, 4 * job.size), 0.05))
