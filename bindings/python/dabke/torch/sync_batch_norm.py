"""Batch normalization over the batches of all ranks together."""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F

from .. import _core
from .._frontend.collective_table import ALLGATHER, ALLREDUCE
from ..errors import InvalidArgumentError
from ..reduce_ops import Sum
from .options import options_of
from .submission import run_one

_numbers = itertools.count()


class SyncBatchNorm(torch.nn.modules.batchnorm._BatchNorm):
    """``torch.nn.BatchNorm`` of any dimension, with statistics over the batches of all ranks.

    In training, mean and variance are those of all ranks' batches.

    Ranks may have batches of different sizes, also empty ones. In evaluation, and in a job of one rank, it
    works like ``torch.nn.BatchNorm``.

    Args:
        num_features: the number of channels, which are the second dimension of an input.
        eps: the number that is added to the variance.
        momentum: the share of a batch in the running statistics; None: the average of all batches.
        affine: True to multiply the result by a weight, and to add a bias.
        track_running_stats: True to keep running statistics, which evaluation then uses.

    Raises:
        InvalidArgumentError: by ``forward``, for an input of fewer than 2 dimensions. Also in training, for a
            channel with fewer than 2 elements on all ranks together.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        # All ranks must make their modules in the same order.
        self._name = f"sync_batch_norm.{next(_numbers)}"

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise InvalidArgumentError(
                f"SyncBatchNorm: the input has {input.dim()} dimensions; it needs at least 2"
            )

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        if not self.training or _core.size() == 1:
            return self._alone(input)
        weight: torch.Tensor | None = self.weight
        bias: torch.Tensor | None = self.bias
        normalize: Any = _Normalize
        output, mean, variance, count = normalize.apply(input, weight, bias, self.eps, self._name)
        if (
            self.running_mean is not None
            and self.running_var is not None
            and self.num_batches_tracked is not None
        ):
            with torch.no_grad():
                self.num_batches_tracked.add_(1)
                share = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
                total = float(count)
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
                self.running_var.lerp_((variance * (total / (total - 1))).to(self.running_var.dtype), share)
        return output  # type: ignore[no-any-return]

    def _alone(self, input: torch.Tensor) -> torch.Tensor:
        share = self.momentum
        if self.training and self.running_mean is not None and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if share is None:
                share = 1.0 / float(self.num_batches_tracked)
        uses_batch = self.training or self.running_mean is None
        return F.batch_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            uses_batch,
            share or 0.0,
            self.eps,
        )


def _over_batch(tensor: torch.Tensor) -> list[int]:
    """Returns all dimensions except that of the channels."""
    return [0, *range(2, tensor.dim())]


def _along_channels(vector: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return vector.view(1, -1, *(1 for _ in range(like.dim() - 2)))


class _Normalize(torch.autograd.Function):
    """Returns the output, and for the running statistics mean, variance and element count by channel."""

    @staticmethod
    def forward(ctx: Any, input: torch.Tensor, weight: Any, bias: Any, eps: float, name: str) -> Any:
        exact = input.to(torch.float32) if input.element_size() < 4 else input
        mean, variance, count = _joined_statistics(exact, name)
        inverse = torch.rsqrt(variance + eps)
        normal = (exact - _along_channels(mean, exact)) * _along_channels(inverse, exact)
        output = normal if weight is None else normal * _along_channels(weight.to(exact.dtype), exact)
        output = output if bias is None else output + _along_channels(bias.to(exact.dtype), exact)
        ctx.save_for_backward(normal, inverse, weight)
        ctx.name, ctx.count, ctx.dtype = name, float(count), input.dtype
        ctx.mark_non_differentiable(mean, variance, count)
        return output.to(input.dtype), mean, variance, count

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        normal, inverse, weight = ctx.saved_tensors
        grad = grads[0].to(normal.dtype)
        own_sum = grad.sum(_over_batch(grad))
        own_dot = (grad * normal).sum(_over_batch(grad))
        grad_input = None
        if ctx.needs_input_grad[0]:
            joined = torch.stack([own_sum, own_dot])
            run_one(ALLREDUCE, f"{ctx.name}.grad", joined, options_of(op=int(Sum)), in_place=True)
            mean_sum, mean_dot = joined / ctx.count
            factor = inverse if weight is None else inverse * weight.to(inverse.dtype)
            centred = grad - _along_channels(mean_sum, grad) - normal * _along_channels(mean_dot, grad)
            grad_input = (centred * _along_channels(factor, grad)).to(ctx.dtype)
        # The gradients of weight and bias are this rank's own. The optimizer reduces them like all others.
        own = weight.dtype if weight is not None else grad.dtype
        grad_weight = own_dot.to(own) if ctx.needs_input_grad[1] else None
        grad_bias = own_sum.to(own) if ctx.needs_input_grad[2] else None
        return grad_input, grad_weight, grad_bias, None, None


def _joined_statistics(input: torch.Tensor, name: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns mean, variance and number of all ranks' elements by channel.

    Each rank sends its count, mean and sum of squared deviations, because sums of squares would lose digits.
    """
    channels = input.shape[1]
    count = input.numel() // max(1, channels)
    mean = input.sum(_over_batch(input)) / max(1, count)
    deviations = (input - _along_channels(mean, input)).square().sum(_over_batch(input))
    own = torch.stack([torch.full_like(mean, count), mean, deviations]).unsqueeze(0)
    gathered = run_one(ALLGATHER, f"{name}.statistics", own, options_of())
    counts, means, sums = gathered.unbind(1)
    total = counts.sum(0)
    if float(total.max()) <= 1:
        raise InvalidArgumentError(
            f"SyncBatchNorm: {int(total.max())} element for each channel on all ranks together; "
            "training needs at least 2"
        )
    joined_mean = (counts * means).sum(0) / total
    squares = (sums + counts * (means - joined_mean).square()).sum(0)
    return joined_mean, squares / total, total[0]
