"""The state of an elastic program: copies for commits, and the same values on all ranks after a change.

1. ``commit`` copies the values of this rank, then counts. The copy before is dropped only after that.
2. ``restore`` sets the values of the last commit.
3. ``sync`` gives every rank the newest commit. The roster of the epoch has the ranks that hold it. All other
   ranks receive it, and what they have received is a commit only when every rank has it. If all ranks hold
   it, nothing is sent. If there is no commit, rank 0 sends its present values, and they become commit 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from ... import epochs
from ...errors import InvalidArgumentError
from ...timeline import marked_steps
from .failures import HostsUpdatedInterrupt
from .kinds import PLAIN, Copy, Kind
from .transfer import send

__all__ = ["ObjectState", "State"]


class _Progress:
    """The last epoch in which this process has completed a sync. A process has one state at a time."""

    synced_epoch: int | None = None


class State:
    """The base class of states. A subclass has at least ``save``, ``restore`` and ``sync``.

    A program has one state at a time, and every rank calls ``commit`` equally often.
    """

    def __init__(self) -> None:
        self._number: int | None = None  # of the last commit; None before the first sync
        self._marked = 0  # the steps that this process had marked when it last had the values of a commit
        self._is_kept = False  # the present values are those of the last commit
        self._syncs = 0
        self._callbacks: list[Callable[[], object]] = []

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], object]]) -> None:
        """Adds functions for the beginning of each epoch after a change of the ranks.

        They run on every rank, also on the new ones, after the state is equal everywhere. So they may use
        ``rank()`` and ``size()``, and change the learning rate.

        Args:
            callbacks: functions without arguments.
        """
        self._callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Calls ``reset`` and the registered functions. ``run`` calls it after a change of the ranks."""
        self.reset()
        for callback in self._callbacks:
            callback()

    def on_hosts_updated(self, timestamp: Any = None, update_res: Any = None) -> None:
        """Called when this rank is about to leave the epoch for a change of hosts. Does nothing by itself.

        Args:
            timestamp: always None; Horovod has it.
            update_res: always None; Horovod has it.
        """

    def commit(self) -> None:
        """Copies the values, so that training goes on from here after a failure, then checks for changes.

        The last commit stays until the copy is complete.

        Raises:
            HostsUpdatedInterrupt: hosts come or go. ``run`` handles it. Every rank gets it at the same
                commit.
        """
        self._commit()
        if epochs.announced_changes():
            self._interrupt()

    def check_host_updates(self) -> None:
        """Checks for changes of the hosts without a commit. If there is one, the values are committed.

        Raises:
            HostsUpdatedInterrupt: hosts come or go.
        """
        if epochs.announced_changes():
            self._commit()
            self._interrupt()

    def save(self) -> None:
        """Copies the values."""
        raise NotImplementedError

    def restore(self) -> None:
        """Sets the values of the last commit. Does nothing before the first one."""
        raise NotImplementedError

    def sync(self) -> None:
        """Gives all ranks the same values. Every rank calls it."""
        raise NotImplementedError

    def reset(self) -> None:
        """Adapts the values to the new ranks. Does nothing by itself."""

    # ---- for the loop ----

    def _commit(self) -> None:
        self.save()
        self._marked = marked_steps()
        if self._number is not None:
            self._number += 1

    def _lost_steps(self, is_in_a_step: bool) -> int:
        """Returns the steps since the last commit; 0 if none are marked. The next call does not count them.

        Args:
            is_in_a_step: True to count the step in which a rank was lost, too. Outside of the program's
                function there is none.
        """
        marked = marked_steps()
        lost = marked - self._marked + int(is_in_a_step) if marked else 0
        self._marked = marked
        return lost

    def _interrupt(self) -> None:
        self._is_kept = True
        self.on_hosts_updated()
        raise HostsUpdatedInterrupt

    def _keep(self) -> None:
        """Makes the present values a commit, unless they are the last commit already."""
        if not self._is_kept:
            self._commit()
        self._is_kept = False

    def _begin_epoch(self) -> None:
        """Syncs, and calls ``on_reset`` if this is the first sync of an epoch that came by a change."""
        epoch = epochs.current_epoch()
        is_changed = _is_first_sync(epoch) and any(each >= 0 for each in epoch.former_ranks)
        before = self._syncs
        self._is_kept = False
        self.sync()
        if self._syncs == before:  # a subclass has a sync of its own
            self._note_synced(epoch)
        if is_changed:
            epochs.drop_in_flight()  # a commit in the midst of a step has its sums, and a new rank their copy
            self.on_reset()

    def _note_synced(self, epoch: epochs.Epoch) -> None:
        if _is_first_sync(epoch):
            self._number = epoch.newest_commit or 0
        else:
            self._number = 0 if self._number is None else self._number + 1
        self._marked = marked_steps()
        _Progress.synced_epoch = epoch.number
        self._syncs += 1


def _is_first_sync(epoch: epochs.Epoch) -> bool:
    return _Progress.synced_epoch != epoch.number


class ObjectState(State):
    """A state whose attributes are any objects that can be copied and pickled.

        state = ObjectState(epoch=0, history=[])
        state.epoch += 1
        state.commit()

    Args:
        kwargs: the attributes with their first values. The same names on all ranks.

    Raises:
        InvalidArgumentError: a name begins with an underscore, or is that of a method.
    """

    _kinds: ClassVar[tuple[Kind, ...]] = ()  # of a framework; any other value is a plain object

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        for name, value in kwargs.items():
            if name.startswith("_") or hasattr(type(self), name):
                raise InvalidArgumentError(
                    f"{type(self).__name__}: '{name}' cannot be an attribute; give it a name without an "
                    "underscore at its beginning, which no method has"
                )
            setattr(self, name, value)
        self._names = tuple(kwargs)
        self._saved: dict[str, Copy] | None = None
        self._spare: dict[str, Copy] | None = None  # the copy before, whose memory is used again

    def save(self) -> None:
        """Copies the values of all attributes."""
        self._install(self._copies())

    def restore(self) -> None:
        """Sets all attributes from the last commit. Does nothing before the first one.

        Raises:
            InvalidArgumentError: an attribute is an object of another kind now.
        """
        for name, copy in (self._saved or {}).items():
            value = getattr(self, name)
            kind = self._kind_of(value)
            if kind.name != copy.kind:
                raise InvalidArgumentError(
                    f"{type(self).__name__}.{name}: the commit has a copy of kind '{copy.kind}', and the "
                    f"attribute is a {type(value).__name__}; make the same objects on every rank before run"
                )
            loaded = kind.load(value, copy.data)
            if loaded is not value:
                setattr(self, name, loaded)

    def sync(self) -> None:
        """Gives every rank the newest commit, from the ranks that hold it. Every rank calls it.

        A second call in an epoch gives every rank the present values of rank 0, as a new commit.

        Raises:
            InvalidArgumentError: a rank cannot pickle or unpickle the values, or lacks an attribute.
            HorovodInternalError: the job has failed. This rank then has its last commit, and no part of
                another.
        """
        epoch = epochs.current_epoch()
        if _is_first_sync(epoch) and epoch.newest_commit is not None:
            self._receive(epoch, epoch.holders)
        else:
            fresh = self._copies() if epoch.rank == 0 else None
            received = self._exchange(epoch, (0,), fresh)
            self._install(received)
            if epoch.rank != 0:
                self.restore()
        self._note_synced(epoch)

    def reset(self) -> None:
        """Adapts the attributes to the new ranks: samplers, and operations that optimizers have started."""
        for name in self._names:
            value = getattr(self, name)
            self._kind_of(value).reset(value)

    # ---- copies ----

    def _kind_of(self, value: Any) -> Kind:
        return next((kind for kind in self._kinds if kind.fits(value)), PLAIN)

    def _copies(self) -> dict[str, Copy]:
        spare, self._spare = self._spare or {}, None  # an error would leave the spare copy half written
        found = {}
        for name in self._names:
            value = getattr(self, name)
            kind = self._kind_of(value)
            old = spare.get(name)
            found[name] = Copy(
                kind.name, kind.copy(value, old.data if old is not None and old.kind == kind.name else None)
            )
        return found

    def _install(self, copies: dict[str, Copy]) -> None:
        self._spare, self._saved = self._saved, copies

    # ---- sync ----

    def _receive(self, epoch: epochs.Epoch, holders: tuple[int, ...]) -> None:
        is_holder = epoch.rank in holders
        if is_holder and self._saved is None:
            raise InvalidArgumentError(
                f"{type(self).__name__}.sync: this rank holds commit {epoch.newest_commit}, which another "
                "state has made; use one state in a job"
            )
        if len(holders) == epoch.size:
            return
        received = self._exchange(epoch, holders, self._saved)
        if not is_holder:
            self._install(received)
            self.restore()

    def _exchange(
        self, epoch: epochs.Epoch, holders: tuple[int, ...], mine: dict[str, Copy] | None
    ) -> dict[str, Copy]:
        copies: dict[str, Copy] | None = mine
        if len(holders) < epoch.size:
            copies = send(epoch.rank, epoch.size, holders, mine)
        assert copies is not None
        if set(copies) != set(self._names):
            raise InvalidArgumentError(
                f"{type(self).__name__}.sync: this rank has the attributes {', '.join(sorted(self._names))}, "
                f"and a rank that sends has {', '.join(sorted(copies))}; make the same state on every rank"
            )
        return copies
