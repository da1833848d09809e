"""A group's all_to_all, gather and scatter, which send data from each member to each other.

They move any dtype. In a gather or scatter on the host, the root receives or sends a message for each member.
That needs no copy of all tensors in one piece. On devices, a gather is an alltoall in which all rows go to
the root, and a scatter one in which only the root has rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ... import _core
from ...errors import InvalidArgumentError
from .calls import Submit, all_of
from .gathers import Gathers
from .reductions import _check_size, only_list
from .tensors import (
    apart_from,
    as_movable,
    check,
    concatenated,
    flattened,
    only_tensor,
    output_buffer,
    output_buffers,
)
from .work import Part, Work

__all__ = ["Alltoalls"]


class Alltoalls(Gathers):
    # ---- all_to_all ----

    def all_to_all_single(
        self,
        output: Any,
        input: Any,
        output_split_sizes: Any = (),
        input_split_sizes: Any = (),
        opts: Any = None,
        timeout: Any = None,
    ) -> Work:
        call = "all_to_all_single"
        sent = self._rows(call, input, input_split_sizes, "input")
        wanted = self._rows(call, output, output_split_sizes, "output")
        width = _row_size(input)
        if _row_size(output) != width:
            raise InvalidArgumentError(
                f"{call}: output rows of shape {tuple(output.shape[1:])} need equal input rows, "
                f"got {tuple(input.shape[1:])}"
            )
        source = flattened(call, input)
        target, finish = output_buffer(call, output)
        if self._set_order is not None:
            source = torch.cat(list(self._in_set_order(_split(source, sent, width))))
            parts = _split(target, wanted, width)
            target, hand_out = output_buffers(call, self._in_set_order(parts))
            finish = all_of([hand_out, finish])
        part = self._alltoall(call, source, target, sent, wanted, width, [output], finish, opts)
        return self._work(call, part, [input], opts, timeout)

    alltoall_base = all_to_all_single

    def alltoall(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
        call = "all_to_all"
        self._check_count(call, "inputs", len(input_tensors))
        self._check_count(call, "outputs", len(output_tensors))
        target, finish = output_buffers(call, self._in_set_order(output_tensors))
        sent = [each.numel() for each in input_tensors]
        wanted = [each.numel() for each in output_tensors]
        source = concatenated(call, self._in_set_order(input_tensors))
        part = self._alltoall(call, source, target, sent, wanted, 1, list(output_tensors), finish, opts)
        return self._work(call, part, input_tensors, opts)

    def _rows(self, call: str, tensor: torch.Tensor, splits: Sequence[int], which: str) -> list[int]:
        check(call, tensor)
        rows = tensor.shape[0] if tensor.dim() > 0 else 0
        if not splits:
            if rows % self._members != 0:
                raise InvalidArgumentError(
                    f"{call}: {rows} rows of the {which} cannot be divided among {self._members} members; "
                    f"pass {which}_split_sizes"
                )
            return [rows // self._members] * self._members
        self._check_count(call, f"{which}_split_sizes", len(splits))
        if sum(splits) != rows:
            raise InvalidArgumentError(
                f"{call}: {which}_split_sizes {list(splits)} add up to {sum(splits)}, "
                f"but the {which} has {rows} rows"
            )
        return [int(each) for each in splits]

    # ---- gather and scatter ----

    def gather(
        self,
        output_tensors: Any,
        input_tensors: Any,
        opts: Any = None,
        timeout: Any = None,
        *,
        root: Any = None,
    ) -> Work:
        call = "gather"
        input = only_tensor(call, input_tensors)
        root = _root_of(opts, root)
        if input.is_cpu:
            part = self._gather_messages(output_tensors, input, root, opts)
            return self._work(call, part, [input], opts, timeout)
        count = input.numel()
        sent = [count if member == root else 0 for member in range(self._members)]
        if self._rank != root:
            nothing = torch.empty(0, dtype=input.dtype, device=input.device)
            none_wanted = [0] * self._members
            part = self._alltoall(call, flattened(call, input), nothing, sent, none_wanted, 1, [], None, opts)
            return self._work(call, part, [input], opts, timeout)
        outputs = _list_of(call, output_tensors)
        self._check_count(call, "outputs", len(outputs))
        _check_size(call, outputs[root], count)
        target, finish = output_buffers(call, self._in_set_order(outputs))
        wanted = [each.numel() for each in outputs]
        part = self._alltoall(call, flattened(call, input), target, sent, wanted, 1, [outputs], finish, opts)
        return self._work(call, part, [input], opts, timeout)

    def scatter(
        self,
        output_tensors: Any,
        input_tensors: Any,
        opts: Any = None,
        timeout: Any = None,
        *,
        root: Any = None,
    ) -> Work:
        call = "scatter"
        output = only_tensor(call, output_tensors)
        root = _root_of(opts, root)
        inputs: Any = ()
        if output.is_cpu:
            if self._rank == root:
                inputs = _list_of(call, input_tensors)
            part = self._scatter_messages(output, inputs, root, opts)
            return self._work(call, part, inputs, opts, timeout)
        target, finish = output_buffer(call, output)
        if self._rank == root:
            inputs = _list_of(call, input_tensors)
            self._check_count(call, "inputs", len(inputs))
            _check_size(call, output, inputs[root].numel())
            source = concatenated(call, self._in_set_order(inputs))
            sent = [each.numel() for each in inputs]
        else:
            source, sent = torch.empty(0, dtype=output.dtype, device=output.device), [0] * self._members
        wanted = [output.numel() if member == root else 0 for member in range(self._members)]
        part = self._alltoall(call, source, target, sent, wanted, 1, [output], finish, opts)
        return self._work(call, part, inputs, opts, timeout)

    def _gather_messages(self, output_tensors: Any, input: torch.Tensor, root: int, opts: Any) -> Part:
        call = "gather"
        if self._rank != root:
            memories = {root: flattened(call, input)}
            return Part(self._submit_messages(_core.send, call, root, memories, opts), [])
        outputs = _list_of(call, output_tensors)
        self._check_count(call, "outputs", len(outputs))
        for each in outputs:
            _check_size(call, each, input.numel())
        _check_dtypes(call, [*outputs, input])
        targets = [output_buffer(call, each) for each in outputs]
        mine = flattened(call, input)
        memories = {member: memory for member, (memory, _) in enumerate(targets) if member != root}
        handles = self._submit_messages(_core.recv, call, root, memories, opts)
        _copy_own(targets[root][0], mine)
        return Part(handles, [outputs], all_of([finish for _, finish in targets]))

    def _scatter_messages(self, output: torch.Tensor, inputs: Any, root: int, opts: Any) -> Part:
        call = "scatter"
        target, finish = output_buffer(call, output)
        if self._rank != root:
            handles = self._submit_messages(_core.recv, call, root, {root: target}, opts)
            return Part(handles, [output], finish)
        self._check_count(call, "inputs", len(inputs))
        for each in inputs:
            _check_size(call, each, output.numel())
        _check_dtypes(call, [*inputs, output])
        sources = [flattened(call, each) for each in inputs]
        _copy_own(target, sources[root])
        memories = {member: memory for member, memory in enumerate(sources) if member != root}
        return Part(self._submit_messages(_core.send, call, root, memories, opts), [output], finish)

    def _submit_messages(
        self, function: Submit, call: str, root: int, memories: dict[int, torch.Tensor], opts: Any
    ) -> list[_core.Handle]:
        """Submits the messages of a call, by members. Together they are one call of the group's sequence."""
        name = self._names.of_messages_of(f"{call}.{root}")
        waited = self._is_waited_for(opts)
        return [
            self._submit_message(function, name, memory, member, in_sequence=True, waited=waited)
            for member, memory in memories.items()
        ]

    # ---- the common alltoall ----

    def _alltoall(
        self,
        call: str,
        source: torch.Tensor,
        target: torch.Tensor,
        sent: list[int],
        wanted: list[int],
        width: int,
        outputs: list[Any],
        finish: Any,
        opts: Any,
    ) -> Part:
        """Runs an alltoall of rows of `width` elements.

        `sent` and `wanted` have the number of rows for each member, by group ranks. The rows of `source` and
        `target` are in the order of the process set.
        """
        sent, wanted = list(self._in_set_order(sent)), list(self._in_set_order(wanted))
        element_bytes = source.element_size()
        source, target = as_movable(source), as_movable(target)
        width *= (
            element_bytes // source.element_size()
        )  # the same on all members, also on members that send nothing
        rows = apart_from(source, target).view(sum(sent), width)
        into = target.view(sum(wanted), width)
        options = self._with_splits(sent, rows)
        handle = self._submit(_core.alltoall, call, rows, into, options, (width,), opts)

        def check_received() -> None:
            came = handle.received_splits()
            if came != wanted:
                raise InvalidArgumentError(
                    f"{call}: the members sent {came} rows, but the output has room for {wanted}"
                )

        return Part([handle], outputs, all_of([check_received, finish]))


def _check_dtypes(call: str, tensors: Sequence[torch.Tensor]) -> None:
    for each in tensors:
        if each.dtype != tensors[0].dtype:
            raise InvalidArgumentError(
                f"{call}: all tensors need one dtype, got {tensors[0].dtype} and {each.dtype}"
            )


def _copy_own(target: torch.Tensor, source: torch.Tensor) -> None:
    """Copies the root's own part, unless it is in its place."""
    if target.data_ptr() != source.data_ptr():
        target.copy_(source)


def _split(tensor: torch.Tensor, rows: Sequence[int], width: int) -> Sequence[torch.Tensor]:
    """Returns the parts of a compact tensor with these numbers of rows."""
    parts: Sequence[torch.Tensor] = torch.split(tensor, [each * width for each in rows])
    return parts


def _row_size(tensor: torch.Tensor) -> int:
    size = 1
    for each in tensor.shape[1:]:
        size *= each
    return size


def _root_of(opts: Any, root: int | None) -> int:
    if root is not None:
        return root
    return opts if isinstance(opts, int) else int(opts.rootRank)


def _list_of(call: str, tensors: Any) -> Any:
    if len(tensors) > 0 and isinstance(tensors[0], torch.Tensor):
        return tensors
    return only_list(call, tensors)
