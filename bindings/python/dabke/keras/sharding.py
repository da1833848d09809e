"""The part of arrays that a rank trains on."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._frontend.options import AnySet
from ..errors import InvalidArgumentError
from ..process_sets import global_process_set, set_id_of

__all__ = ["shard"]


def shard(*arrays: Any, process_set: AnySet = global_process_set, even: bool = True) -> Any:
    """Returns this rank's rows of arrays: every size-th row, from its rank on.

    Shuffle before, with the same seed on every rank, if the order of the rows means something.

    Args:
        arrays: arrays or tensors of the same length, such as ``x, y``; each has the same rows on every rank.
        process_set: the ranks that share the rows, as a ``ProcessSet`` or its number. A rank outside gets all
            rows.
        even: True to give each rank the same number of rows, and so of steps. Up to size - 1 rows at the end
            are left out. False: no row is left out; ``JoinCallback`` lets the numbers of steps differ.

    Returns:
        the rows of the array, as a slice of it; of several arrays, as a list.

    Raises:
        InvalidArgumentError: no array, arrays of different lengths, or fewer rows than ranks.
        NotInitializedError: this process is not in a job.
    """
    number = set_id_of(process_set)
    lengths = [int(each.shape[0]) for each in arrays]
    if not lengths or min(lengths) != max(lengths):
        raise InvalidArgumentError(f"shard: pass arrays of the same length, not of lengths {lengths}")
    if not _core.process_set_included(number):
        return arrays[0] if len(arrays) == 1 else list(arrays)
    size, rank = _core.process_set_size(number), _core.process_set_rank(number)
    if lengths[0] < size:
        raise InvalidArgumentError(f"shard: {lengths[0]} rows are too few for {size} ranks")
    end = lengths[0] - lengths[0] % size if even else lengths[0]
    parts = [each[rank:end:size] for each in arrays]
    return parts[0] if len(parts) == 1 else parts
