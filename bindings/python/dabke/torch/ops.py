"""The collectives on tensors. Names, arguments, defaults and meanings are those of horovod.torch.

Tensors are contiguous. Asynchronous forms give a handle at once; their tensors must not be touched until it has
completed, but need not be kept. A name stands for the same tensor on every rank, and a second use while it is in
flight is refused (``init`` can change that); without names all ranks submit in the same order.

`process_set` is a ``ProcessSet`` or its number. `average` is the older form of `op`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional, Union

import torch

from .. import _core
from .device_streams import stream_of, submit
from ..errors import InvalidArgumentError
from ..process_sets import global_process_set
from ..reduce_ops import Average, Sum
from .sparse_tensors import average_of_integers, parts_of, sparse_tensor
from .options import AnySet, name_of, names_of_group, options, reduce_op, set_id_of
from .tensors import back_to, described, of_output, on_host, outputs_like, result_in
from .waiting import wait_for

Handle = _core.Handle
_WORLD = global_process_set
_Splits = Union[torch.Tensor, Sequence[int], None]


def poll(handle: Handle) -> bool:
    """Whether the operation has completed, with whatever result. Never blocks."""
    return handle.poll()


def synchronize(handle: Any) -> Any:
    """Waits for the operation and gives its result: a tensor, or a list of a group's. Raises its error.

    Of tensors on a CUDA device the current stream waits, and the host only until all ranks have submitted: what is
    launched next reads the result. What fails after that is raised by the next of these calls, and by ``shutdown``.

    Gives None for what is no handle of a collective, such as None.
    """
    return wait_for(handle) if isinstance(handle, Handle) else None


# ---- allreduce ----


def submit_allreduce(
    name: str,
    tensor: torch.Tensor,
    in_place: bool,
    process_set: int,
    op: int,
    scales: tuple[float, float],
    wire: int = 3,
    wait_follows: bool = False,
) -> Handle:
    """An allreduce under its full name."""
    source = on_host(tensor, "allreduce", name, process_set)
    how = options(process_set, op, scales[0], scales[1], wire, 0, stream_of(source))
    if in_place:
        return submit(_core.allreduce, name, described(source), None, how, result_in(tensor, source), wait_follows)
    out = torch.empty_like(source, requires_grad=False)
    device = tensor.device
    result = out if out.device == device else lambda handle: out.to(device)
    return submit(_core.allreduce, name, described(source), described(out), how, result, wait_follows)


def allreduce_async(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = _WORLD,
) -> Handle:
    """The asynchronous form of ``allreduce``, without gradient."""
    number = set_id_of(process_set)
    scales = prescale_factor, postscale_factor
    operation = reduce_op(op, average)
    return submit_allreduce(name_of("allreduce", name, number), tensor, False, number, operation, scales)


def allreduce_async_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = _WORLD,
) -> Handle:
    """The asynchronous form of ``allreduce_``."""
    number = set_id_of(process_set)
    scales = prescale_factor, postscale_factor
    operation = reduce_op(op, average)
    return submit_allreduce(name_of("allreduce", name, number), tensor, True, number, operation, scales)


def allreduce_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = _WORLD,
) -> torch.Tensor:
    """``allreduce`` in place, without gradient: the tensor becomes the result and is returned."""
    number = set_id_of(process_set)
    scales = prescale_factor, postscale_factor
    operation = reduce_op(op, average)
    handle = submit_allreduce(
        name_of("allreduce", name, number), tensor, True, number, operation, scales, wait_follows=True
    )
    return wait_for(handle)  # type: ignore[no-any-return]


def submit_grouped_allreduce(
    names: list[str],
    tensors: list[torch.Tensor],
    in_place: bool,
    process_set: int,
    op: int,
    scales: tuple[float, float],
    wire: int = 3,
    wait_follows: bool = False,
) -> Handle:
    """An allreduce of several tensors under their full names."""
    sources = [on_host(tensor, "grouped_allreduce", names[0], process_set) for tensor in tensors]
    stream = stream_of(sources[0]) if sources else 0
    how = options(process_set, op, scales[0], scales[1], wire, 0, stream)
    inputs = [described(source) for source in sources]
    if in_place:
        finish = [result_in(tensor, source) for tensor, source in zip(tensors, sources)]
        in_memory = all(tensor is source for tensor, source in zip(tensors, sources))
        result = tensors if in_memory else lambda handle: [each(handle) if callable(each) else each for each in finish]
        return submit(_core.grouped_allreduce, names, inputs, None, how, result, wait_follows)
    outs = [torch.empty_like(source, requires_grad=False) for source in sources]
    staged = any(tensor.device != out.device for tensor, out in zip(tensors, outs))
    result = outs if not staged else lambda handle: [back_to(tensor, out) for tensor, out in zip(tensors, outs)]
    return submit(_core.grouped_allreduce, names, inputs, [described(out) for out in outs], how, result, wait_follows)


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = _WORLD,
) -> Handle:
    """The asynchronous form of ``grouped_allreduce``, without gradient: one handle for all tensors."""
    number = set_id_of(process_set)
    names = names_of_group("grouped_allreduce", name, number, len(tensors))
    scales = prescale_factor, postscale_factor
    return submit_grouped_allreduce(names, list(tensors), False, number, reduce_op(op, average), scales)


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = _WORLD,
) -> Handle:
    """The asynchronous form of ``grouped_allreduce_``."""
    number = set_id_of(process_set)
    names = names_of_group("grouped_allreduce", name, number, len(tensors))
    scales = prescale_factor, postscale_factor
    return submit_grouped_allreduce(names, list(tensors), True, number, reduce_op(op, average), scales)


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: AnySet = _WORLD,
) -> list[torch.Tensor]:
    """``grouped_allreduce`` in place, without gradient: the tensors become the results and are returned."""
    number = set_id_of(process_set)
    names = names_of_group("grouped_allreduce", name, number, len(tensors))
    scales = prescale_factor, postscale_factor
    handle = submit_grouped_allreduce(
        names, list(tensors), True, number, reduce_op(op, average), scales, wait_follows=True
    )
    return wait_for(handle)  # type: ignore[no-any-return]


def sparse_allreduce_async(
    tensor: torch.Tensor, name: Optional[str], op: int, process_set: AnySet = _WORLD
) -> Callable[[], torch.Tensor]:
    """Adds sparse COO tensors of the same shape: by an allgather of their indices and one of their values.

    Args:
        tensor: coalesced or not; ranks may have any number of elements.
        op: Average or Sum. Integers are averaged as dense ones are.

    Returns:
        a function that waits and gives the sum or average, which may be not coalesced.
    """
    if op not in (Average, Sum):
        raise InvalidArgumentError("sparse_allreduce_async: op must be Average or Sum")
    indices, values = parts_of(tensor)
    if op == Average and values.dtype == torch.bool:
        raise InvalidArgumentError("sparse_allreduce_async: bool has no average; use Sum, which is true where any rank's is")
    number = set_id_of(process_set)
    base = name_of("sparse_allreduce", name, number)
    gathered = submit_grouped_allgather([f"{base}.indices", f"{base}.values"], [indices, values], number)
    counted = None
    if op == Average:  # the gathered rows do not tell who has joined
        counted = submit_allreduce(f"{base}.ranks", torch.ones(1, dtype=torch.int64), True, number, Sum, (1.0, 1.0))

    def wait() -> torch.Tensor:
        all_indices, all_values = wait_for(gathered)
        if counted is None:
            return sparse_tensor(all_indices.t(), all_values, tensor)
        ranks = int(wait_for(counted))
        if values.is_floating_point():
            return sparse_tensor(all_indices.t(), all_values / ranks, tensor)
        return average_of_integers(all_indices.t(), all_values, tensor, ranks)

    return wait


# ---- allgather ----


def submit_allgather(name: str, tensor: torch.Tensor, process_set: int, wait_follows: bool = False) -> Handle:
    """An allgather under its full name."""
    source = on_host(tensor, "allgather", name, process_set)
    device = tensor.device
    how = options(process_set, stream=stream_of(source))

    def result(handle: Handle) -> torch.Tensor:
        return of_output(handle.output()).to(device)

    return submit(_core.allgather, name, described(source), None, how, result, wait_follows)


def allgather_async(tensor: torch.Tensor, name: Optional[str] = None, process_set: AnySet = _WORLD) -> Handle:
    """The asynchronous form of ``allgather``, without gradient."""
    number = set_id_of(process_set)
    return submit_allgather(name_of("allgather", name, number), tensor, number)


def submit_grouped_allgather(
    names: list[str], tensors: Sequence[torch.Tensor], process_set: int, wait_follows: bool = False
) -> Handle:
    """An allgather of several tensors under their full names."""
    sources = [on_host(tensor, "grouped_allgather", names[0], process_set) for tensor in tensors]
    how = options(process_set, stream=stream_of(sources[0]) if sources else 0)
    inputs = [described(source) for source in sources]
    return submit(_core.grouped_allgather, names, inputs, None, how, outputs_like(tensors), wait_follows)


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor], name: Optional[str] = None, process_set: AnySet = _WORLD
) -> Handle:
    """The asynchronous form of ``grouped_allgather``, without gradient."""
    number = set_id_of(process_set)
    return submit_grouped_allgather(names_of_group("grouped_allgather", name, number, len(tensors)), tensors, number)


# ---- broadcast ----


def submit_broadcast(
    name: str,
    tensor: torch.Tensor,
    in_place: bool,
    root_rank: int,
    process_set: int,
    wait_follows: bool = False,
) -> Handle:
    """A broadcast under its full name."""
    source = on_host(tensor, "broadcast", name, process_set)
    how = options(process_set, root_rank=int(root_rank), stream=stream_of(source))
    if in_place:
        return submit(_core.broadcast, name, described(source), None, how, result_in(tensor, source), wait_follows)
    out = torch.empty_like(source, requires_grad=False)
    device = tensor.device
    result = out if out.device == device else lambda handle: out.to(device)
    return submit(_core.broadcast, name, described(source), described(out), how, result, wait_follows)


def broadcast_async(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: AnySet = _WORLD
) -> Handle:
    """The asynchronous form of ``broadcast``, without gradient."""
    number = set_id_of(process_set)
    return submit_broadcast(name_of("broadcast", name, number), tensor, False, root_rank, number)


def broadcast_async_(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: AnySet = _WORLD
) -> Handle:
    """The asynchronous form of ``broadcast_``."""
    number = set_id_of(process_set)
    return submit_broadcast(name_of("broadcast", name, number), tensor, True, root_rank, number)


def broadcast_(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: AnySet = _WORLD
) -> torch.Tensor:
    """``broadcast`` in place, without gradient: the tensor becomes that of `root_rank` and is returned."""
    number = set_id_of(process_set)
    full_name = name_of("broadcast", name, number)
    handle = submit_broadcast(full_name, tensor, True, root_rank, number, wait_follows=True)
    return wait_for(handle)  # type: ignore[no-any-return]


# ---- alltoall ----


def submit_alltoall(
    name: str, tensor: torch.Tensor, splits: _Splits, process_set: int, wait_follows: bool = False
) -> Handle:
    """An alltoall under its full name."""
    source = on_host(tensor, "alltoall", name, process_set)
    device = tensor.device
    if splits is None:
        how = options(process_set, stream=stream_of(source))

        def received_rows(handle: Handle) -> torch.Tensor:
            return of_output(handle.output()).to(device)

        return submit(_core.alltoall, name, described(source), None, how, received_rows, wait_follows)
    rows = [int(each) for each in (splits.tolist() if isinstance(splits, torch.Tensor) else splits)]
    how = _core.Options(process_set=process_set, splits=rows, stream=stream_of(source))

    def with_splits(handle: Handle) -> tuple[torch.Tensor, torch.Tensor]:
        received = torch.tensor(handle.received_splits(), dtype=torch.int32, device=device)
        return of_output(handle.output()).to(device), received

    return submit(_core.alltoall, name, described(source), None, how, with_splits, wait_follows)


def alltoall_async(
    tensor: torch.Tensor, splits: _Splits = None, name: Optional[str] = None, process_set: AnySet = _WORLD
) -> Handle:
    """The asynchronous form of ``alltoall``, without gradient."""
    number = set_id_of(process_set)
    return submit_alltoall(name_of("alltoall", name, number), tensor, splits, number)


# ---- reducescatter ----


def submit_reducescatter(
    name: str,
    tensor: torch.Tensor,
    process_set: int,
    op: int,
    scales: tuple[float, float],
    wait_follows: bool = False,
) -> Handle:
    """A reducescatter under its full name."""
    source = on_host(tensor, "reducescatter", name, process_set)
    device = tensor.device
    how = options(process_set, op, scales[0], scales[1], stream=stream_of(source))

    def result(handle: Handle) -> torch.Tensor:
        return of_output(handle.output()).to(device)

    return submit(_core.reducescatter, name, described(source), None, how, result, wait_follows)


def reducescatter_async(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    op: int = Average,
    process_set: AnySet = _WORLD,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle:
    """The asynchronous form of ``reducescatter``, without gradient."""
    number = set_id_of(process_set)
    scales = prescale_factor, postscale_factor
    return submit_reducescatter(name_of("reducescatter", name, number), tensor, number, int(op), scales)


def submit_grouped_reducescatter(
    names: list[str],
    tensors: Sequence[torch.Tensor],
    process_set: int,
    op: int,
    scales: tuple[float, float],
    wait_follows: bool = False,
) -> Handle:
    """A reducescatter of several tensors under their full names."""
    sources = [on_host(tensor, "grouped_reducescatter", names[0], process_set) for tensor in tensors]
    how = options(process_set, op, scales[0], scales[1], stream=stream_of(sources[0]) if sources else 0)
    inputs = [described(source) for source in sources]
    return submit(_core.grouped_reducescatter, names, inputs, None, how, outputs_like(tensors), wait_follows)


def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    op: int = Average,
    process_set: AnySet = _WORLD,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle:
    """The asynchronous form of ``grouped_reducescatter``, without gradient."""
    number = set_id_of(process_set)
    names = names_of_group("grouped_reducescatter", name, number, len(tensors))
    return submit_grouped_reducescatter(names, tensors, number, int(op), (prescale_factor, postscale_factor))


# ---- barrier and join ----


def barrier(process_set: AnySet = _WORLD) -> None:
    """Returns when every rank of the set has come."""
    _core.barrier(options(set_id_of(process_set)), wait_follows=True).wait()


def join(device: int = -1) -> int:
    """This rank has no more data: until all ranks join, it takes part in the others' allreduces with zeros.

    An average is still divided by the full size, as Horovod's; ``init(join="dabke")`` makes it the average of the
    ranks that take part, and serves the other collectives too. Minimum, maximum and product get their neutral
    element.

    Args:
        device: the CUDA device with whose memory to take part; -1 for the host, as is a device that this build or
            machine does not have. So ``join(hvd.local_rank())`` is right with GPUs and without.

    Returns:
        the rank that joined last.
    """
    handle = _core.join(_core.Options(device=device))
    handle.wait()
    return handle.last_joined_rank()
