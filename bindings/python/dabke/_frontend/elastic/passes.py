"""The samples of a pass over a dataset that the ranks together have processed, whatever their number was.

A pass has an order of the samples. Each sample has a position in it. The ranks take the remaining positions
in turn: rank r takes the places r, r + size, r + 2 size and so on. So batch i of all ranks together is one
range of the remaining positions. Every rank computes the same ranges from its own batches, because all ranks
process the same batches in step. No rank sends anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...errors import InvalidArgumentError

__all__ = ["Pass"]

Range = tuple[int, int]


def _joined(ranges: Iterable[Range]) -> list[Range]:
    """Returns the ranges in ascending order, without overlaps and without empty ones."""
    result: list[Range] = []
    for begin, end in sorted(ranges):
        if begin >= end:
            continue
        if result and begin <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((begin, end))
    return result


class Pass:
    """One pass over `count` positions.

    The share of a rank is fixed from one ``share_out`` to the next. With `is_padded`, the first places are
    repeated at the end, so that all shares are equally long.
    """

    def __init__(self, count: int, is_padded: bool) -> None:
        self._count, self._is_padded = count, is_padded
        self._processed: list[Range] = []
        self._remaining: list[Range] = []
        self._size = 1
        self.share_out(0, 1)

    # ---- the shares ----

    def share_out(self, rank: int, size: int) -> None:
        """Divides the positions that are not processed among `size` ranks, of which this one is `rank`."""
        ends = [0, *(end for _, end in self._processed)]
        begins = [*(begin for begin, _ in self._processed), self._count]
        self._remaining = [each for each in zip(ends, begins) if each[0] < each[1]]
        self._rank, self._size = rank, size

    @property
    def remaining(self) -> int:
        """The number of positions that were not processed at the last ``share_out``."""
        return sum(end - begin for begin, end in self._remaining)

    def share_length(self, rank: int | None = None) -> int:
        """Returns the number of places of a rank; None: of this rank."""
        rank = self._rank if rank is None else rank
        rows, rest = divmod(self.remaining, self._size)
        return rows + (rest > 0 if self._is_padded else rank < rest)

    def share(self) -> list[int]:
        """Returns the positions of this rank, in the order in which it processes them."""
        left = [position for begin, end in self._remaining for position in range(begin, end)]
        total = self.share_length() * self._size if self._is_padded else len(left)
        if left and total > len(left):
            left = (left * -(-total // len(left)))[:total]
        return left[self._rank :: self._size]

    # ---- progress ----

    def record(self, first: int, last: int) -> None:
        """Notes that every rank has processed the places `first` to `last` - 1 of its share."""
        begin, end = max(0, first) * self._size, last * self._size
        place, found = 0, []
        for start, stop in self._remaining:
            low, high = max(begin, place), min(end, place + stop - start)
            if low < high:
                found.append((start + low - place, start + high - place))
            place += stop - start
        self._processed = _joined([*self._processed, *found])

    def record_places(self, places: Iterable[int]) -> None:
        """Notes that every rank has processed some places of its share, in any order."""
        for first, last in _joined((place, place + 1) for place in places):
            self.record(first, last)

    @property
    def is_complete(self) -> bool:
        """True if every position is processed."""
        return self._processed == [(0, self._count)] or self._count == 0

    @property
    def processed(self) -> list[list[int]]:
        """The processed positions, as ascending pairs of a first one and the one after the last."""
        return [[begin, end] for begin, end in self._processed]

    def load(self, ranges: Iterable[Sequence[int]]) -> None:
        """Replaces the processed positions by those of ``processed``.

        Raises:
            InvalidArgumentError: a range is not within the dataset.
        """
        pairs = [(int(begin), int(end)) for begin, end in ranges]
        for begin, end in pairs:
            if not 0 <= begin <= end <= self._count:
                raise InvalidArgumentError(
                    f"positions {begin} to {end} are processed, but the dataset has {self._count} samples; "
                    "load the state of a sampler of the same dataset"
                )
        self._processed = _joined(pairs)
