"""A group's allreduce, reduce and reduce_scatter, under all of torch's names.

Options are torch's objects. Torch's Python shorthands for them (a ReduceOp, a root) are accepted, too.
"""

from __future__ import annotations

from typing import Any

import torch

from ... import _core
from ..._frontend.collective_table import REDUCESCATTER
from ...errors import InvalidArgumentError
from ..device_streams import record_use
from ..tensors import descriptor_of
from .calls import Calls, all_of, merged
from .reduce_ops import Reduction, reduction_of
from .sparse import allreduce_sparse
from .tensors import (
    Tensors,
    as_reducible,
    check,
    check_device,
    concatenated,
    flattened,
    only_tensor,
    output_buffer,
)
from .work import Part, Work

__all__ = ["Reductions"]


class Reductions(Calls):
    # ---- allreduce ----

    def allreduce(self, tensors: Any, opts: Any = None, timeout: Any = None, *, op: Any = None) -> Work:
        tensor = only_tensor("allreduce", tensors)
        if tensor.layout is not torch.strided:
            part = self._allreduce_sparse(tensor, opts if op is None else op)
        else:
            part = self._allreduce_all("allreduce", [tensor], opts if op is None else op)
        return self._work("allreduce", part, [tensor], opts, timeout)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Work:
        part = self._allreduce_all("allreduce_coalesced", list(tensors), opts)
        return self._work("allreduce", part, tensors, opts)

    def _allreduce_all(self, call: str, tensors: Tensors, opts: Any) -> Part:
        reduction = reduction_of(call, opts, tensors[0])
        options = self._with_reduction(reduction, tensors[0])
        name = f"{call}.{reduction.name}"
        memories, finishes = [], []
        for tensor in tensors:
            memory, finish = _in_place(call, tensor)
            memories.append(as_reducible(call, memory))
            finishes.append(finish)
        if len(tensors) == 1:
            whole = tuple(tensors[0].shape)
            handle = self._submit(_core.allreduce, name, memories[0], None, options, whole, opts)
        else:
            shape = (len(tensors), sum(each.numel() for each in memories))
            inputs = [descriptor_of(each) for each in memories]
            handle = self._names.submit(
                name,
                memories[0].dtype,
                shape,
                lambda name: _core.grouped_allreduce(
                    [f"{name}.{i}" for i in range(len(inputs))], inputs, None, options
                ),
            )
        return Part([handle], list(tensors), all_of(finishes))

    def _allreduce_sparse(self, tensor: torch.Tensor, opts: Any) -> Part:
        check_device("allreduce", tensor)
        reduction = reduction_of("allreduce", opts, tensor)
        submit, put_in_place = allreduce_sparse(tensor, reduction, self._members, self._with(tensor))
        handle = self._names.submit(
            f"allreduce_sparse.{reduction.name}", tensor.dtype, tuple(tensor.shape), submit
        )
        return Part([handle], [tensor], lambda: put_in_place(handle))

    # ---- reduce ----

    def reduce(
        self, tensors: Any, opts: Any = None, op: Any = None, timeout: Any = None, *, root: int | None = None
    ) -> Work:
        """Runs an allreduce, whose result is dropped on all ranks but the root."""
        tensor = only_tensor("reduce", tensors)
        if root is None:
            root = opts if isinstance(opts, int) else opts.rootRank
        reduction = reduction_of("reduce", opts if op is None and not isinstance(opts, int) else op, tensor)
        options = self._with_reduction(reduction, tensor)
        output = finish = None
        if self._rank == root:
            memory, finish = _in_place("reduce", tensor)
            memory = as_reducible("reduce", memory)
        else:
            memory = as_reducible("reduce", flattened("reduce", tensor))
            output = torch.empty_like(memory)
        name = f"reduce.{reduction.name}"
        handle = self._submit(_core.allreduce, name, memory, output, options, tuple(tensor.shape), opts)
        part = Part([handle], [tensor], finish)
        return self._work("reduce", part, [tensor], opts, timeout)

    # ---- reduce_scatter ----

    def reduce_scatter(
        self,
        output_tensors: Any,
        input_tensors: Any,
        opts: Any = None,
        timeout: Any = None,
        *,
        op: Any = None,
    ) -> Work:
        call = "reduce_scatter"
        output = only_tensor(call, output_tensors)
        inputs = (
            input_tensors if isinstance(input_tensors[0], torch.Tensor) else only_list(call, input_tensors)
        )
        self._check_count(call, "inputs", len(inputs))
        _check_size(call, output, inputs[self._rank].numel())
        reduction = reduction_of(call, opts if op is None else op, output)
        in_order = self._in_set_order(inputs)
        source = concatenated(call, in_order)
        if all(each.numel() == output.numel() for each in inputs):
            part = self._reduce_scatter_flat(call, output, source, reduction, opts)
        else:
            part = self._reduce_scatter_uneven(call, output, in_order, source, reduction)
        return self._work(call, part, inputs, opts, timeout)

    def reduce_scatter_single(self, output: Any, input: Any, opts: Any = None) -> Work:
        part = self._reduce_scatter_tensor(output, input, opts)
        return self._work("reduce_scatter_tensor", part, [input], opts)

    def _reduce_scatter_tensor(self, output: Any, input: Any, opts: Any) -> Part:
        call = "reduce_scatter_tensor"
        check(call, input)
        _check_size(call, input, output.numel() * self._members)
        source = flattened(call, input)
        if self._set_order is not None:
            source = torch.cat(self._parts_in_set_order(source))
        return self._reduce_scatter_flat(call, output, source, reduction_of(call, opts, output), opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        parts = [self._reduce_scatter_tensor(output, input, opts) for output, input in zip(outputs, inputs)]
        return self._work("reduce_scatter_tensor_coalesced", merged(parts), inputs, opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _reduce_scatter_flat(
        self, call: str, output: torch.Tensor, source: torch.Tensor, reduction: Reduction, opts: Any
    ) -> Part:
        target, finish = output_buffer(call, output)
        rows = as_reducible(call, source)
        handle = self._submit(
            REDUCESCATTER.submit,
            f"{call}.{reduction.name}",
            rows,
            as_reducible(call, target),
            self._with_reduction(reduction, rows),
            tuple(rows.shape),
            opts,
        )
        return Part([handle], [output], finish)

    def _reduce_scatter_uneven(
        self, call: str, output: torch.Tensor, inputs: Tensors, source: torch.Tensor, reduction: Reduction
    ) -> Part:
        """Reduces parts of different sizes: an allreduce of all parts, of which each rank keeps its own.

        The inputs are in the order of the process set.
        """
        source = as_reducible(call, source)
        total = torch.empty_like(source)
        options = self._with_reduction(reduction, source)
        handle = self._submit(
            _core.allreduce, f"{call}.{reduction.name}", source, total, options, tuple(source.shape)
        )
        begin = sum(each.numel() for each in inputs[: self._set_rank])

        def finish() -> None:
            record_use(total)
            whole = torch.view_as_complex(total) if output.is_complex() else total
            output.detach().copy_(whole[begin : begin + output.numel()].view(output.shape))

        return Part([handle], [output], finish)


def only_list(call: str, lists: Any) -> Any:
    """Returns the only list of a list of lists: torch passes one list for each device of the process."""
    if len(lists) != 1:
        raise InvalidArgumentError(f"{call}: expected one list of tensors, got {len(lists)}")
    return lists[0]


def _check_size(call: str, tensor: torch.Tensor, wanted: int) -> None:
    if tensor.numel() != wanted:
        raise InvalidArgumentError(
            f"{call}: a tensor of shape {tuple(tensor.shape)} has {tensor.numel()} elements, "
            f"but needs {wanted}"
        )


def _in_place(call: str, tensor: torch.Tensor) -> Any:
    """Returns memory with the tensor's elements for a result in place, and a function to copy it back."""
    memory, finish = output_buffer(call, tensor)
    if finish is not None:
        memory.copy_(tensor.detach().reshape(-1))
    return memory, finish
