"""An optimizer whose gradients are reduced over the ranks, each as soon as the backward pass has made it."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from .._frontend.parameters import groups_of, names_of
from ..epochs import drop_at_epoch_change
from ..errors import InvalidArgumentError, UnimplementedError
from ..process_sets import global_process_set
from ..reduce_ops import Adasum, Average
from ..timeline import optimizer_stepped
from .compression import Compression, Compressor
from .gradient_reducer import GradientReducer, SparseForm
from .options import AnySet, set_id_of

_Named = Iterable[tuple[str, torch.Tensor]]
_Groups = int | Sequence[Sequence[torch.Tensor]] | None

_SECOND_SYNCHRONIZE = (
    "optimizer.step() after optimizer.synchronize(): the gradients are still reduced only once, because no "
    "backward pass has changed them since; write: "
    "optimizer.synchronize(); with optimizer.skip_synchronize(): optimizer.step()"
)
_NONE_BY_DEFAULT = bool(inspect.signature(torch.optim.Optimizer.zero_grad).parameters["set_to_none"].default)


class _Distributed(torch.optim.Optimizer):
    """The additional methods of the wrapped optimizer's class. Made by ``DistributedOptimizer``."""

    _reducer: GradientReducer
    _parameter_names: dict[torch.Tensor, str]  # programs for Horovod read it
    _synchronized: bool
    _should_synchronize: bool

    def synchronize(self) -> None:
        """Waits until all gradients are reduced, after it has started the reductions that are missing.

        On a CUDA device the current stream waits. The next call, or ``state_dict``, raises a later failure.
        """
        self._reducer.finish(_sparse_form(self))
        self._synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Makes ``step`` use the gradients that the program has changed after ``synchronize()``."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Sets the number of backward passes that add to the gradients before they are reduced."""
        self._reducer.set_passes(passes)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Reduces the gradients that are not reduced yet, then steps like the wrapped optimizer.

        Args:
            closure: a function that computes the loss and its gradients again. They are reduced after each
                call.
        """
        if closure is not None:
            given = closure
            self._reducer.finish_started(_sparse_form(self))

            def closure() -> Any:
                loss = given()
                if self._should_synchronize:
                    self.synchronize()
                return loss

        elif self._should_synchronize:
            if not (self._synchronized and self._reducer.is_untouched()):
                self.synchronize()
            else:
                warnings.warn(_SECOND_SYNCHRONIZE, UserWarning, stacklevel=2)
        self._synchronized = False
        result = super().step(closure) if closure is not None else super().step()
        optimizer_stepped(self)
        return result

    def zero_grad(self, set_to_none: bool = _NONE_BY_DEFAULT) -> None:
        """Zeroes the gradients like the wrapped optimizer. Raises AssertionError while they are reduced."""
        if self._reducer.is_reducing():
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or "
                "optimizer.synchronize(), while the gradients are being reduced"
            )
        self._reducer.start_over()
        self._synchronized = False
        super().zero_grad(set_to_none=set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """Returns the wrapped optimizer's state, for a checkpoint. Raises a failure of the last step."""
        if "_reducer" in self.__dict__:
            self._reducer.settle()
        return super().state_dict()

    def load_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """Loads a state like the wrapped optimizer. Drops started reductions."""
        self._reducer.forget()
        self._synchronized = False
        super().load_state_dict(*args, **kwargs)

    def _drop_in_flight(self) -> None:
        """Drops the reductions and the gradients of an unfinished step, after a change of the ranks."""
        self._reducer.drop()
        self._synchronized = False
        super().zero_grad()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group like the wrapped optimizer. All ranks then reduce the new gradients, too."""
        super().add_param_group(param_group)
        if "_reducer" in self.__dict__:
            self._reducer.add(self.param_groups[-1]["params"])


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: _Named | None = None,
    compression: type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: _Groups = None,
    sparse_as_dense: bool = False,
    process_set: AnySet = global_process_set,
    *,
    gradient_memory: bool = True,
) -> Any:
    """Wraps an optimizer: its gradients are reduced over the ranks while the backward pass still goes on.

    Args:
        optimizer: an optimizer like those of torch.optim. The result shares its groups and state. The class
            of the result is a subclass of the optimizer's class, with the same name.
        named_parameters: ``model.named_parameters()``, with every parameter of the optimizer. None: gradients
            are named by their order, which must be the same on all ranks.
        compression: the form in which gradients travel; see ``Compression``.
        backward_passes_per_step: the number of backward passes whose gradients are added before they are
            reduced. The sum is not divided by this number.
        op: Average, Sum, Min, Max or Product.
        gradient_predivide_factor: with Average, the part of the division that comes before the sum instead of
            after it.
        num_groups: the number of groups in which gradients travel, in the order of the parameters; 0: each
            gradient travels by itself.
        groups: a number like `num_groups`, or the groups as lists of parameters; other gradients travel by
            themselves.
        sparse_as_dense: True to send sparse gradients as dense ones; else their elements are gathered.
            SparseAdam, and SGD and Adagrad without weight decay, get them back as sparse ones, all other
            optimizers as dense ones.
        process_set: the ranks that train this model together. Other ranks may call, too, and train alone.
        gradient_memory: True to put gradients into memory that ranks of one host share, so that they are
            reduced in place.

    Returns:
        the optimizer, with the additional methods ``synchronize``, ``skip_synchronize`` and
        ``set_backward_passes_per_step``.

    Raises:
        InvalidArgumentError: a name is given twice, a parameter lacks a name, or the groups are not valid.
        UnimplementedError: `op` is Adasum.
    """
    if isinstance(optimizer, _Distributed):
        raise InvalidArgumentError("DistributedOptimizer: the optimizer is distributed already")
    if op == Adasum:
        raise UnimplementedError("DistributedOptimizer: Adasum is not supported yet; use Average")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise InvalidArgumentError("DistributedOptimizer: gradient_predivide_factor needs op=Average")
    if backward_passes_per_step < 1:
        raise InvalidArgumentError("DistributedOptimizer: backward_passes_per_step must be at least 1")
    if num_groups < 0:
        raise InvalidArgumentError("DistributedOptimizer: num_groups must not be negative")
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    names = names_of("DistributedOptimizer", parameters, named_parameters)
    reducer = GradientReducer(
        names,
        groups_of(
            "DistributedOptimizer", groups if groups is not None else num_groups, parameters, torch.Tensor
        ),
        compression,
        backward_passes_per_step,
        int(op),
        float(gradient_predivide_factor),
        sparse_as_dense,
        set_id_of(process_set),
        gradient_memory,
    )
    kind: Any = type(type(optimizer).__name__, (_Distributed, type(optimizer)), {})
    result = kind.__new__(kind)
    # A scheduler that was made for the wrapped optimizer has set the attribute `step` of it.
    result.__dict__.update((name, value) for name, value in optimizer.__dict__.items() if name != "step")
    result._parameter_names = names
    result._reducer, result._synchronized, result._should_synchronize = reducer, False, True
    reducer.add(parameters)
    drop_at_epoch_change(result)
    return result


def _sparse_form(optimizer: torch.optim.Optimizer) -> SparseForm:
    """Returns the forms of gradients that the optimizer takes.

    The documentation of ``torch.nn.Embedding`` names the optimizers of torch that take sparse gradients.
    Those take them only without weight decay.
    """
    if isinstance(optimizer, torch.optim.SparseAdam):
        return SparseForm.REQUIRED
    takes_both = isinstance(optimizer, (torch.optim.SGD, torch.optim.Adagrad))
    decays = any(group.get("weight_decay", 0) != 0 for group in optimizer.param_groups)
    return SparseForm.TAKEN if takes_both and not decays else SparseForm.REFUSED
