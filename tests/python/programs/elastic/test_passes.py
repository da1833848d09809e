"""A pass over a dataset, divided anew among other numbers of ranks in its midst. No job is needed."""

import pytest

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import strategies as st  # noqa: E402

from dabke._frontend.elastic.passes import Pass  # noqa: E402


class Ranks:
    """The same pass on every rank, as each rank would compute it by itself."""

    def __init__(self, count, is_padded):
        self.count, self.is_padded = count, is_padded
        self.progress = []

    def share_out(self, size):
        self.passes = [Pass(self.count, self.is_padded) for _ in range(size)]
        for rank, each in enumerate(self.passes):
            each.load(self.progress)
            each.share_out(rank, size)
        self.shares = [each.share() for each in self.passes]

    def batches(self, batch_size):
        longest = max(map(len, self.shares))
        return -(-longest // batch_size)

    def process(self, batch, batch_size):
        """Returns the positions that all ranks process in a batch."""
        found = []
        for each, share in zip(self.passes, self.shares):
            found += share[batch * batch_size : (batch + 1) * batch_size]
            each.record(batch * batch_size, (batch + 1) * batch_size)
        assert len({str(each.processed) for each in self.passes}) == 1
        self.progress = self.passes[0].processed
        return found


@hypothesis.settings(deadline=None, max_examples=300)
@hypothesis.given(
    st.integers(1, 200),
    st.booleans(),
    st.lists(st.tuples(st.integers(1, 7), st.integers(1, 9), st.integers(0, 6)), max_size=5),
)
def test_each_sample_is_processed_once_whatever_the_ranks(count, is_padded, changes):
    """`changes` are phases: the number of ranks, their batch size, and the batches until the next change."""
    ranks, seen, most_extra = Ranks(count, is_padded), [], 0
    for size, batch_size, batches in [*changes, (2, 3, 1000)]:
        ranks.share_out(size)
        for batch in range(min(batches, ranks.batches(batch_size))):
            seen += ranks.process(batch, batch_size)
        if is_padded:
            most_extra += size - 1
    assert set(seen) == set(range(count))
    assert len(seen) - count <= most_extra
    if not is_padded:
        assert sorted(seen) == list(range(count))


@hypothesis.settings(deadline=None, max_examples=100)
@hypothesis.given(
    st.integers(1, 60), st.integers(1, 5), st.lists(st.lists(st.integers(0, 11), max_size=6), max_size=4)
)
def test_places_in_any_order_are_never_processed_again(count, size, rounds):
    ranks, seen = Ranks(count, False), set()
    for places in rounds:
        ranks.share_out(size)
        for each, share in zip(ranks.passes, ranks.shares):
            now = {share[place] for place in places if place < len(share)}
            assert not now & seen
            each.record_places(places)
        for share in ranks.shares:
            seen |= {share[place] for place in places if place < len(share)}
        ranks.progress = ranks.passes[0].processed
        assert sum(end - begin for begin, end in ranks.progress) == len(seen)


@pytest.mark.parametrize("is_padded", [True, False])
def test_shares_are_equally_long_only_with_padding(is_padded):
    lengths = []
    for rank in range(4):
        each = Pass(10, is_padded)
        each.share_out(rank, 4)
        lengths.append(len(each.share()))
        assert each.share_length() == lengths[-1]
    assert lengths == ([3, 3, 3, 3] if is_padded else [3, 3, 2, 2])


def test_a_dataset_smaller_than_the_ranks_is_repeated_for_all():
    for rank in range(5):
        each = Pass(2, True)
        each.share_out(rank, 5)
        assert each.share() == [rank % 2]


def test_an_empty_dataset_is_complete():
    each = Pass(0, True)
    assert each.is_complete and each.share() == []
