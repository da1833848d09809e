"""Samplers that go on where a pass over the dataset stood, with any number of ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Any

import torch

from ... import _core
from ..._frontend.elastic.passes import Pass
from ...errors import InvalidArgumentError

__all__ = ["ElasticSampler", "UnevenElasticSampler"]


class ElasticSampler(torch.utils.data.Sampler[int]):
    """The samples of this rank, without those that the ranks have processed in this pass.

    All ranks take their samples from one order, which depends on the seed and the epoch. Every rank processes
    equally many samples, so some samples at the end of a pass come twice. Put the sampler into a
    ``TorchState``, and record each batch before the commit after it. Then each sample comes once in a pass,
    except in steps that are repeated after a failure.

    All ranks record the same batches in step. The progress is the same on every rank, and nothing is sent.

    Args:
        dataset: a dataset with a length.
        shuffle: True for another order in each epoch; False for the order of the dataset.
        seed: the seed of the order, the same on every rank.

    Attributes:
        epoch: the number of the pass.
        rank: this rank, as the samples were divided.
        num_replicas: the number of ranks, as the samples were divided.
        num_samples: the number of this rank's samples.
        indices: the samples of this rank, as indices of the dataset.
    """

    _is_padded = True

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self._begin_pass()

    def set_epoch(self, epoch: int) -> None:
        """Begins another pass over all samples.

        A pass of the same number that has been interrupted is not begun again. So the call may stand at the
        beginning of an epoch, or at its end.

        Args:
            epoch: the number of the pass.
        """
        if epoch != self.epoch or self._pass.is_complete:
            self.epoch = epoch
            self._begin_pass()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Notes that every rank has processed a batch.

        Args:
            batch_idx: the number of the batch since the samples were divided, from 0, as ``enumerate`` of a
                loader gives it.
            batch_size: the number of samples that a rank has in a batch.

        Raises:
            InvalidArgumentError: the number is negative, or the size is not positive.
        """
        if batch_idx < 0 or batch_size < 1:
            raise InvalidArgumentError(
                f"ElasticSampler.record_batch: batch_idx={batch_idx}, batch_size={batch_size}; the number "
                "begins at 0, and the size at 1"
            )
        self._pass.record(batch_idx * batch_size, (batch_idx + 1) * batch_size)

    def record_indices(self, indices: Iterable[int]) -> None:
        """Notes that this rank has processed some samples, and every other rank its own in their place.

        Args:
            indices: indices of the dataset that this rank has had.

        Raises:
            InvalidArgumentError: an index is not one of this rank's samples.
        """
        place_of = {index: place for place, index in reversed(list(enumerate(self.indices)))}
        try:
            self._pass.record_places([place_of[int(index)] for index in indices])
        except KeyError as error:
            raise InvalidArgumentError(
                f"ElasticSampler.record_indices: sample {error.args[0]} is not one of this rank's samples; "
                "record what this rank has processed since the last reset"
            ) from None

    def reset(self) -> None:
        """Divides the samples that are left among the ranks of the job."""
        running = _core.is_initialized()
        self.rank, self.num_replicas = (_core.rank(), _core.size()) if running else (0, 1)
        self._pass.share_out(self.rank, self.num_replicas)
        order = self._order()
        self.indices = [order[position] for position in self._pass.share()]
        self.num_samples = len(self.indices)

    def state_dict(self) -> dict[str, Any]:
        """Returns the progress, for a commit or a checkpoint. It is the same on every rank."""
        return {"epoch": self.epoch, "processed": self._pass.processed}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on where another sampler stood, and divides what is left among the ranks of the job.

        Args:
            state_dict: the result of ``state_dict``; or Horovod's, which has ``processed_indices``.

        Raises:
            InvalidArgumentError: it is that of a larger dataset.
        """
        self.epoch = int(state_dict["epoch"])
        self._begin_pass()
        if "processed" in state_dict:
            self._pass.load(state_dict["processed"])
        else:
            taken = set(state_dict["processed_indices"])
            places = [(place, place + 1) for place, index in enumerate(self._order()) if index in taken]
            self._pass.load(places)
        self.reset()

    def __iter__(self) -> Iterator[int]:
        return iter(list(self.indices))

    def __len__(self) -> int:
        return self.num_samples

    def _begin_pass(self) -> None:
        self._pass = Pass(len(self.dataset), self._is_padded)
        self.reset()

    def _order(self) -> list[int]:
        """Returns the indices of the dataset in the order of this pass."""
        if not self.shuffle:
            return list(range(len(self.dataset)))
        generator = torch.Generator()
        generator.manual_seed(self.seed + self.epoch)
        order: list[int] = torch.randperm(len(self.dataset), generator=generator).tolist()
        return order


class UnevenElasticSampler(ElasticSampler):
    """An ``ElasticSampler`` that repeats no sample, so ranks may have one sample more than others.

    A rank may then have a batch more, too. The others ``join()`` meanwhile. Every rank must commit equally
    often: commit only in the batches of ``common_batches``, and after the pass.

    Args:
        dataset: as in ``ElasticSampler``.
        shuffle: as in ``ElasticSampler``.
        seed: as in ``ElasticSampler``.
    """

    _is_padded = False

    def common_batches(self, batch_size: int) -> int:
        """Returns the number of batches that every rank has, the last of which may be smaller.

        Args:
            batch_size: the number of samples that a rank has in a batch.
        """
        return -(-self._pass.share_length(self.num_replicas - 1) // batch_size)
