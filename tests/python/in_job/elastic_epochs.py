"""Epochs for the tests of elastic states: the roster is given by the test. The ranks are those of the job.

The job itself is not elastic. The sync that follows from a roster is real: it runs between these ranks.
"""

import collections

import dabke
from dabke import epochs
from dabke._frontend.elastic import state as elastic_state


class Epochs:
    """Replaces the four functions of ``dabke.epochs`` for one rank.

    Attributes:
        left: the commits with which the rank has left epochs.
        repeated: the numbers of repeated steps, with which it has left them.
        changes: the number of announced changes.
    """

    def __init__(self, monkeypatch):
        self.rank, self.size = dabke.rank(), dabke.size()
        self.left, self.repeated = [], []
        self.changes = 0
        self._rosters = []
        self._number = 1000
        self._now = self._epoch(None, (), (-1,) * self.size)
        monkeypatch.setattr(elastic_state._Progress, "synced_epoch", None)
        for name in ("current_epoch", "next_epoch", "announced_changes", "is_elastic"):
            monkeypatch.setattr(epochs, name, getattr(self, name))

    def _epoch(self, newest, holders, former_ranks, left=None):
        self._number += 1
        return epochs.Epoch(
            self._number, self.rank, self.size, former_ranks, newest, tuple(holders), (), left
        )

    def begin(self, newest, holders, former_ranks=None):
        """Begins an epoch at once."""
        self._now = self._epoch(newest, holders, former_ranks or tuple(range(self.size)))
        self.changes = 0

    def then(self, *arguments, **others):
        """Gives the roster of an epoch that ``next_epoch`` begins later: the arguments of ``begin``."""
        self._rosters.append((arguments, others))

    def leave(self, why):
        """Makes the next call of ``next_epoch`` the last one."""
        self._rosters.append(why)

    def current_epoch(self):
        return self._now

    def next_epoch(self, commit=None, repeated_steps=0):
        self.left.append(commit)
        self.repeated.append(repeated_steps)
        roster = self._rosters.pop(0)
        if isinstance(roster, str):
            return self._epoch(None, (), (), left=roster)
        self.begin(*roster[0], **roster[1])
        epochs.note_change()
        return self._now

    def announced_changes(self):
        return self.changes

    def is_elastic(self):
        return True


def batches_run():
    """Returns the number of batches that this rank has run, by collective."""
    counts = collections.Counter()
    for row in dabke.collective_statistics():
        counts[row["collective"]] += row["batches"]
    return counts
