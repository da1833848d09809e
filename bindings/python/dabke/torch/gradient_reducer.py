"""Starts each gradient's reduction when the backward pass has made it, and waits for all before a step.

A gradient is reduced in place: in its slot of the shared memory, or in its own memory if it lacks a slot.
Members of a group are reduced together when the last of them is ready. Every rank reduces every gradient once
a step. A gradient that this rank's backward pass has not made counts as zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Any, NamedTuple

import torch

from .. import _core
from .._frontend.collective_table import ALLREDUCE
from .._frontend.gradient_tracker import GradientTracker
from .._frontend.partners import trains_alone
from ..errors import UnsupportedError
from ..reduce_ops import Average, Sum
from ..compression import Compression as WireCompression
from . import ops
from .compression import Compressor, wire_compression
from .device_streams import UnobservedHandles, is_supported, stream_of, submit, record_use
from .gradient_memory import Slot, flat_view, is_compact, slots_for
from .options import options_of
from .sparse_tensors import no_rows
from .submission import submit_group
from .tensors import descriptor_of, on_host

# The function to call when a reduction is complete. It returns the reduced gradient.
_Finish = Callable[[], torch.Tensor]
_DEFAULT_WIRE = int(WireCompression.default)


class _Prepared(NamedTuple):
    """A gradient that is ready to hand over. It is reduced in place; `finish` then returns the result."""

    tensor: torch.Tensor
    descriptor: _core.Tensor | None
    wire: int
    finish: _Finish


class _Started(NamedTuple):
    """A gradient's reduction. The members of a group share the handle; it is None for a sparse gradient."""

    handle: _core.Handle | None
    finish: _Finish


def _in_layout_of(parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """Returns the gradient with the strides of its parameter, as a copy if needed.

    The strides of a parameter are equal on all ranks.

    The gradient of a complex parameter may be a view that conjugates or negates its memory; this is resolved.
    """
    gradient = gradient.detach().resolve_conj().resolve_neg()
    if not is_compact(parameter):
        return gradient.contiguous()
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter, requires_grad=False).copy_(gradient)


class SparseForm(Enum):
    """The forms of gradients that an optimizer takes."""

    REFUSED = auto()  # only dense gradients
    TAKEN = auto()  # dense and sparse gradients
    REQUIRED = auto()  # only sparse gradients


class GradientReducer:
    """The hooks of an optimizer's parameters, and the reductions that they have started."""

    def __init__(
        self,
        names: dict[torch.Tensor, str],
        groups: list[list[torch.Tensor]],
        compression: type[Compressor],
        passes: int,
        op: int,
        predivide: float,
        sparse_as_dense: bool,
        process_set: int,
        use_gradient_memory: bool,
    ) -> None:
        self._tracker: GradientTracker[torch.Tensor, _Started] = GradientTracker(
            names, groups, passes, lambda member: member.requires_grad and member not in self._sparse
        )
        self._compression = compression
        self._op = op
        self._scales = (1.0 / predivide, predivide)
        self._sparse_as_dense = sparse_as_dense
        self._process_set = process_set
        self._use_gradient_memory = use_gradient_memory
        self._is_alone = trains_alone(process_set)
        self._alone: list[torch.Tensor] = []  # the parameters, if no other rank reduces with this one
        self._frozen: list[torch.Tensor] = []  # parameters without gradients; they may get them later
        self._known: set[torch.Tensor] = set()
        self._slots: dict[torch.Tensor, Slot] = {}
        self._sparse: dict[torch.Tensor, int] = {}  # gathered gradients, with their sparse dimensions
        self._made_dense: dict[torch.Tensor, int] = {}  # once sparse gradients, with their sparse dimensions
        self._unobserved = UnobservedHandles()  # of the last step, for which a stream waits
        self._nodes: list[Any] = []  # keeps the accumulators of old PyTorch versions alive, with their hooks

    # ---- parameters ----

    def add(self, parameters: Iterable[torch.Tensor]) -> None:
        """Adds parameters. A parameter without a gradient takes part once it requires one."""
        if self._is_alone:
            self._alone.extend(parameters)
            return
        new = [each for each in dict.fromkeys([*self._frozen, *parameters]) if each not in self._known]
        self._frozen = [each for each in new if not each.requires_grad]
        fresh = [each for each in new if each.requires_grad]
        for parameter in fresh:
            name = self._tracker.name_of(parameter)
            if parameter.is_complex() and self._op not in (Average, Sum):
                raise UnsupportedError(f"'{name}' is complex; only Average and Sum can reduce its gradient")
            self._known.add(parameter)
            self._tracker.add(parameter)
            self._hook(parameter)
        if self._use_gradient_memory and fresh:
            self._slots.update(slots_for(fresh))

    def _hook(self, parameter: torch.Tensor) -> None:
        if hasattr(parameter, "register_post_accumulate_grad_hook"):
            register: Any = parameter.register_post_accumulate_grad_hook
            register(self._gradient_is_there)
            return
        with torch.enable_grad():
            grad_fn = parameter.expand_as(parameter).grad_fn
        node = grad_fn.next_functions[0][0]  # type: ignore[union-attr]
        node.register_hook(lambda *_: self._gradient_is_there(parameter))  # type: ignore[union-attr]
        self._nodes.append(node)

    def set_passes(self, passes: int) -> None:
        """Sets the number of backward passes that add to a gradient before it is reduced."""
        self._tracker.set_passes(passes)

    # ---- during the backward pass ----

    def _gradient_is_there(self, parameter: torch.Tensor) -> None:
        """Called by autograd after each backward pass that has added to the parameter's gradient."""
        if self._tracker.pass_done(parameter):
            self._start(parameter)

    def _start(self, parameter: torch.Tensor) -> None:
        """Starts the reduction, or that of the group when all members are ready. Sparse ones go alone."""
        gradient = parameter.grad
        assert gradient is not None
        is_gathered = gradient.is_sparse and not self._sparse_as_dense
        if is_gathered:
            if gradient._nnz() > 0:
                self._sparse[parameter] = gradient.sparse_dim()
            else:  # in PyTorch 1.13 zero_() makes all dimensions sparse, unlike those of other ranks
                gradient = no_rows(parameter, self._sparse.setdefault(parameter, 1))
            self._start_sparse(parameter, gradient)
        members = self._tracker.complete(parameter, alone=is_gathered)
        if members:
            self._start_dense(members)

    def _start_sparse(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        wait = ops.sparse_allreduce_async(
            gradient, self._tracker.name_of(parameter), self._op, self._process_set
        )
        self._tracker.start(parameter, _Started(None, wait))

    def _start_dense(self, members: list[torch.Tensor]) -> None:
        """Starts one reduction of the members' gradients."""
        prepared = [self._prepare(parameter) for parameter in members]
        wires = {each.wire for each in prepared}
        handle = self._submit(
            [f"allreduce.{self._tracker.name_of(parameter)}" for parameter in members],
            prepared,
            wires.pop() if len(wires) == 1 else _DEFAULT_WIRE,
        )
        for parameter, each in zip(members, prepared):
            self._tracker.start(parameter, _Started(handle, each.finish))

    def _submit(self, names: list[str], prepared: list[_Prepared], wire: int) -> _core.Handle:
        self.settle()  # waits for the last step, once a step
        options = options_of(self._process_set, self._op, *self._scales, wire)
        if not all(is_supported(each.tensor) for each in prepared):
            return submit_group(ALLREDUCE, names, [each.tensor for each in prepared], options, in_place=True)
        compiled = options.on_stream(stream_of(prepared[0].tensor))
        handed_over = [
            each.descriptor or descriptor_of(on_host(each.tensor, "allreduce", names[0], self._process_set))
            for each in prepared
        ]
        if len(handed_over) == 1:
            return submit(_core.allreduce, names[0], handed_over[0], None, compiled)
        return submit(_core.grouped_allreduce, names, handed_over, None, compiled)

    def _prepare(self, parameter: torch.Tensor) -> _Prepared:
        """Moves the parameter's gradient to memory in which it can be reduced."""
        gradient = parameter.grad
        assert gradient is not None
        if gradient.is_sparse:
            self._made_dense[parameter] = gradient.sparse_dim()
            gradient = gradient.to_dense()
        wire = _DEFAULT_WIRE if gradient.is_complex() else wire_compression(self._compression, gradient)
        slot = self._slots.get(parameter)
        if slot is not None:
            if not slot.holds(gradient):
                slot.copy_from(gradient)
            parameter.grad = gradient = slot.gradient
            if wire is not None:
                return _Prepared(slot.flat, slot.descriptor, wire, lambda: gradient)
        if wire is None:
            return self._compressed(gradient)
        dense = _in_layout_of(parameter, gradient)
        return _Prepared(flat_view(dense), None, wire, lambda: dense)

    def _compressed(self, gradient: torch.Tensor) -> _Prepared:
        compressed, context = self._compression.compress(gradient.detach().contiguous())

        def finish() -> torch.Tensor:
            record_use(compressed)
            result = self._compression.decompress(compressed, context)
            return gradient.detach().copy_(result.view(gradient.shape))

        return _Prepared(compressed, None, _DEFAULT_WIRE, finish)

    # ---- before a step ----

    def is_reducing(self) -> bool:
        """True if a reduction has been started, or waits for its group."""
        return self._tracker.is_reducing

    def is_untouched(self) -> bool:
        """True if no backward pass has added to a gradient since all gradients were reduced."""
        return self._tracker.is_untouched

    def finish_started(self, form: SparseForm) -> None:
        """Calls ``finish`` if a backward pass has added to a gradient."""
        if not self.is_untouched():
            self.finish(form)

    def finish(self, form: SparseForm) -> None:
        """Starts the missing reductions, and waits for all. The gradients are then reduced over all ranks.

        A sparse gradient that has travelled dense is made sparse again for an optimizer that takes it.

        On a CUDA device the current stream waits. The host waits for the last step's reductions when it
        starts the first reduction of this step. So a failure is raised before the weights that it has made
        wrong change again, and the host is at most a forward pass ahead.
        """
        if self._is_alone:
            self._make_dense(form)
            return
        if self._frozen:
            self.add([])
        if form is SparseForm.REQUIRED:
            self._expect_sparse()
        for parameter in self._tracker.parameters:
            if parameter.requires_grad and self._tracker.is_missing(parameter):
                self._start_missing(parameter)
        waited = None
        for parameter, reduction in self._tracker.take_started().items():
            if reduction.handle is not waited and reduction.handle is not None:
                waited = reduction.handle
                ops.synchronize(waited)
                if waited.cuda_device >= 0:
                    self._unobserved.add(waited)
            gradient = reduction.finish()
            if form is not SparseForm.REFUSED and parameter in self._made_dense:
                gradient = gradient.to_sparse(self._made_dense[parameter])
            parameter.grad = gradient

    def _expect_sparse(self) -> None:
        """Marks gradients that this rank has never made as sparse: the optimizer takes no others."""
        for parameter in self._tracker.parameters:
            if not self._sparse_as_dense:
                self._sparse.setdefault(parameter, 1)
            else:
                self._made_dense.setdefault(parameter, 1)

    def _make_dense(self, form: SparseForm) -> None:
        """Makes sparse gradients dense on a rank that trains alone, if the optimizer refuses sparse ones."""
        for parameter in self._alone if self._sparse_as_dense and form is SparseForm.REFUSED else []:
            if parameter.grad is not None and parameter.grad.is_sparse:
                parameter.grad = parameter.grad.to_dense()

    def settle(self) -> None:
        """Waits for the last step's operations for which streams wait, and raises their failure."""
        self._unobserved.wait_all()

    def _start_missing(self, parameter: torch.Tensor) -> None:
        if parameter.grad is None:
            if parameter in self._sparse:
                parameter.grad = no_rows(parameter, self._sparse[parameter])
            elif parameter in self._slots:
                parameter.grad = self._slots[parameter].gradient.zero_()
            else:
                parameter.grad = torch.zeros_like(parameter)
        self._start(parameter)

    def start_over(self) -> None:
        """Restarts the counts of passes, because the gradients are gone."""
        self._tracker.start_over()

    def forget(self) -> None:
        """Waits for the started reductions, and drops them."""
        for reduction in self._tracker.take_started().values():
            if reduction.handle is not None:
                ops.synchronize(reduction.handle)
            else:
                reduction.finish()
        self._tracker.forget()

    def drop(self) -> None:
        """Drops the started reductions without waiting for them, because their epoch has ended."""
        self._tracker.take_started()
        self._tracker.forget()
        self._unobserved.clear()
