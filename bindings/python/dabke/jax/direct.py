"""The collectives outside of a program: on arrays that are there, by the runtime itself, and waited for."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from .. import _core
from .._frontend.collective_table import ALLGATHER, ALLREDUCE, ALLTOALL, BROADCAST, REDUCESCATTER
from ..errors import UnsupportedError
from ..handles import all_outputs, one_output, synchronize, with_splits
from .calls import Call
from .errors import dabke_errors

__all__ = ["allgather", "alltoall", "alltoall_with_splits", "note_device", "reducescatter", "run"]


@functools.cache
def note_device(platform: str) -> None:
    """Warns once that arrays of this platform travel by way of the host."""
    if platform != "cpu":
        warnings.warn(
            f"dabke.jax: arrays on '{platform}' are copied to the host for each collective, "
            "and the results back",
            RuntimeWarning,
            stacklevel=2,
        )


def _wrong_with(array: Any) -> str | None:
    if not jnp.issubdtype(array.dtype, jnp.number) and array.dtype != jnp.bool_:
        return f"the dtype is {array.dtype}; pass numbers or bool, of random keys jax.random.key_data(key)"
    if not array.is_fully_addressable:
        return "the array has parts on other processes; pass one that lies on this process alone"
    return None


def _on_host(collective: str, call: Call, array: Any, name: str) -> Any:
    """The array's elements as NumPy has them, without a copy where they lie on the host."""
    if why := _wrong_with(array):
        _core.refuse(collective, name, call.process_set, UnsupportedError(f"{collective} '{name}': {why}"))
    for device in array.devices():
        note_device(device.platform)
    with dabke_errors():
        return numpy.ascontiguousarray(numpy.asarray(array)).reshape(array.shape)


def _like(result: Any, array: Any) -> jax.Array:
    """The result where the array lies."""
    device = next(iter(array.devices()))
    where = array.sharding if len(array.devices()) > 1 and result.shape == array.shape else device
    placed: jax.Array = jax.device_put(result, where)
    return placed


def _finish(results: Sequence[Any], arrays: Sequence[Any]) -> list[jax.Array]:
    return [_like(result, array) for result, array in zip(results, arrays)]


def _hosts(collective: str, call: Call, arrays: Sequence[Any]) -> list[Any]:
    return [_on_host(collective, call, array, name) for array, name in zip(arrays, call.names)]


def allreduce(call: Call, arrays: Sequence[Any]) -> list[jax.Array]:
    hosts = _hosts("allreduce", call, arrays)
    outputs = [numpy.empty_like(host) for host in hosts]
    core = call.options.core
    if len(hosts) == 1:
        synchronize(ALLREDUCE.submit(call.names[0], hosts[0], outputs[0], core, None, True))
    else:
        assert ALLREDUCE.submit_group is not None
        synchronize(ALLREDUCE.submit_group(list(call.names), hosts, outputs, core, None, True))
    return _finish(outputs, arrays)


def broadcast(call: Call, arrays: Sequence[Any]) -> list[jax.Array]:
    outputs = [numpy.array(host) for host in _hosts("broadcast", call, arrays)]
    core = call.options.core
    handles = [BROADCAST.submit(name, out, None, core, None) for name, out in zip(call.names, outputs)]
    for handle in handles:
        synchronize(handle)
    return _finish(outputs, arrays)


def allgather(call: Call, arrays: Sequence[Any]) -> list[jax.Array]:
    """Ranks may have any number of rows."""
    core = call.options.core
    pairs = zip(call.names, _hosts("allgather", call, arrays))
    handles = [ALLGATHER.submit(name, host, None, core, one_output) for name, host in pairs]
    return _finish([synchronize(handle) for handle in handles], arrays)


def _allgather_of_equals(call: Call, arrays: Sequence[Any]) -> list[jax.Array]:
    """The shapes are those that the trace of a program has assumed."""
    core, handles, outputs = call.options.core, [], []
    for name, host in zip(call.names, _hosts("allgather", call, arrays)):
        outputs.append(numpy.empty((call.set_size * host.shape[0], *host.shape[1:]), host.dtype))
        handles.append(ALLGATHER.submit(name, host, outputs[-1], core, None))
    for handle in handles:
        synchronize(handle)
    return _finish(outputs, arrays)


def alltoall(call: Call, arrays: Sequence[Any]) -> list[jax.Array]:
    core = call.options.core
    pairs = zip(call.names, _hosts("alltoall", call, arrays))
    handles = [ALLTOALL.submit(name, host, None, core, one_output) for name, host in pairs]
    return _finish([synchronize(handle) for handle in handles], arrays)


def alltoall_with_splits(call: Call, array: Any, splits: list[int]) -> tuple[jax.Array, list[int]]:
    """Returns the array and the rows that came from each rank."""
    core = call.options.with_splits(splits)
    host = _on_host("alltoall", call, array, call.names[0])
    result, received = synchronize(ALLTOALL.submit(call.names[0], host, None, core, with_splits(None), True))
    return _like(result, array), received


def reducescatter(call: Call, arrays: Sequence[Any]) -> list[jax.Array]:
    hosts = _hosts("reducescatter", call, arrays)
    core = call.options.core
    if len(hosts) == 1:
        results = [synchronize(REDUCESCATTER.submit(call.names[0], hosts[0], None, core, one_output, True))]
    else:
        assert REDUCESCATTER.submit_group is not None
        results = synchronize(
            REDUCESCATTER.submit_group(list(call.names), hosts, None, core, all_outputs, True)
        )
    return _finish(results, arrays)


_BY_NAME: dict[str, Callable[[Call, Sequence[Any]], list[jax.Array]]] = {
    "allreduce": allreduce,
    "allgather": _allgather_of_equals,
    "broadcast": broadcast,
    "alltoall": alltoall,
    "reducescatter": reducescatter,
}


def run(collective: str, call: Call, arrays: Sequence[Any]) -> list[jax.Array]:
    """The call of a program, with arrays in place of its values."""
    return _BY_NAME[collective](call, [jnp.asarray(array) for array in arrays])
