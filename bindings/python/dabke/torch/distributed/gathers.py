"""A group's broadcast and allgather, under all of torch's names. They move any dtype."""

from __future__ import annotations

from typing import Any

import torch

from ... import _core
from .calls import all_of, merged
from .reductions import Reductions, _check_size, _in_place, only_list
from .tensors import apart_from, as_movable, flattened, only_tensor, output_buffer, output_buffers
from .work import Part, Work

__all__ = ["Gathers"]


class Gathers(Reductions):
    def broadcast(
        self, tensors: Any, opts: Any = None, timeout: Any = None, *, root: int | None = None
    ) -> Work:
        tensor = only_tensor("broadcast", tensors)
        if root is None:
            root = opts if isinstance(opts, int) else opts.rootRank if opts is not None else 0
        memory, finish = _in_place("broadcast", tensor)
        options = self._with(memory, root=root)
        handle = self._submit(
            _core.broadcast, f"broadcast.{root}", as_movable(memory), None, options, tuple(tensor.shape), opts
        )
        return self._work("broadcast", Part([handle], [tensor], finish), [tensor], opts, timeout)

    # ---- allgather ----

    def allgather(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: Any = None
    ) -> Work:
        """Gathers tensors. Sizes may differ between ranks, if every rank passes outputs of these sizes."""
        input = only_tensor("all_gather", input_tensors)
        part = self._allgather_list(output_tensors, input, opts)
        return self._work("all_gather", part, [input], opts, timeout)

    def _allgather_list(self, output_tensors: Any, input: torch.Tensor, opts: Any = None) -> Part:
        call = "all_gather"
        outputs = (
            output_tensors if isinstance(output_tensors[0], torch.Tensor) else only_list(call, output_tensors)
        )
        self._check_count(call, "outputs", len(outputs))
        _check_size(call, outputs[self._rank], input.numel())
        target, finish = output_buffers(call, self._in_set_order(outputs))
        return self._gather_flat(call, input, target, [outputs], finish, opts)

    def all_gather_single(self, output: Any, input: Any, opts: Any = None) -> Work:
        part = self._allgather_tensor(output, input, opts)
        return self._work("all_gather_into_tensor", part, [input], opts)

    def _allgather_tensor(self, output: Any, input: Any, opts: Any = None) -> Part:
        call = "all_gather_into_tensor"
        _check_size(call, output, input.numel() * self._members)
        target, finish = output_buffer(call, output)
        if self._set_order is not None:
            target, hand_out = output_buffers(call, self._parts_in_set_order(target))
            finish = all_of([hand_out, finish])
        return self._gather_flat(call, input, target, [output], finish, opts)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        parts = [self._allgather_tensor(output, input) for output, input in zip(outputs, inputs)]
        return self._work("all_gather_into_tensor_coalesced", merged(parts), inputs, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather_coalesced(self, output_lists: Any, input_list: Any, opts: Any = None) -> Work:
        """Gathers several tensors. `output_lists` has for each rank an output for each input."""
        self._check_count("all_gather_coalesced", "lists of outputs", len(output_lists))
        by_input = [[from_rank[i] for from_rank in output_lists] for i in range(len(input_list))]
        parts = [self._allgather_list([outputs], each) for outputs, each in zip(by_input, input_list)]
        return self._work("all_gather", merged(parts), input_list, opts)

    def _gather_flat(
        self, call: str, input: Any, target: torch.Tensor, outputs: Any, finish: Any, opts: Any
    ) -> Part:
        target = as_movable(target)
        source = apart_from(as_movable(flattened(call, input)), target)
        # The size of the result is the same on all ranks; that of the input may differ.
        options, shape = self._with(source), tuple(target.shape)
        handle = self._submit(_core.allgather, call, source, target, options, shape, opts)
        return Part([handle], outputs, finish)
