"""Rendezvous in a store with keys of earlier tries. Processes die at any of their operations on the store, by
seed."""

import random
import threading

import pytest

from dabke._bootstrap.store_rendezvous import StoreRendezvous

PATIENCE_SECONDS = 100
MOST_OPERATIONS = 16  # the operations of a meeting where no member has to wait


class Killed(BaseException):
    """Represents the end of a process."""


class SharedKeys:
    """The content of the store. Each process has a client of its own."""

    def __init__(self):
        self.values, self.counts = {}, {}
        self.changed = threading.Condition()
        self.has_ended = False  # the launcher ends the processes of a try

    def end_all(self):
        with self.changed:
            self.has_ended = True
            self.changed.notify_all()


class Client:
    """A process's access to the store. The process dies before its operation number `dies_at`."""

    def __init__(self, keys, dies_at=None):
        self._keys, self._left = keys, dies_at

    def _operate(self):
        if self._left == 0 or self._keys.has_ended:
            raise Killed
        if self._left is not None:
            self._left -= 1

    def set(self, key, value):
        with self._keys.changed:
            self._operate()
            self._keys.values[key] = value
            self._keys.changed.notify_all()

    def add(self, key, amount):
        with self._keys.changed:
            self._operate()
            self._keys.counts[key] = self._keys.counts.get(key, 0) + amount
            return self._keys.counts[key]

    def get(self, key):
        with self._keys.changed:
            self._operate()
            there = lambda: key in self._keys.values or self._keys.has_ended  # noqa: E731
            assert self._keys.changed.wait_for(there, timeout=PATIENCE_SECONDS), key
            if key not in self._keys.values:
                raise Killed
            return self._keys.values[key]


def one_try(keys, size, dies_at, meetings=1):
    """Returns what each member gathered in each meeting, or the error that ended it. After a death, all other
    members end, as the launcher would end them."""
    keys.has_ended = False
    seen = [None] * size
    died = threading.Event()

    def take_part(member):
        client = Client(keys, dies_at.get(member))
        try:
            seen[member] = [
                StoreRendezvous(client, member, size, PATIENCE_SECONDS).gather(
                    "step", f"{member} in {i}".encode()
                )
                for i in range(meetings)
            ]
        except BaseException as error:
            seen[member] = error
            died.set()
        if member in dies_at:
            died.set()

    threads = [threading.Thread(target=take_part, args=(member,)) for member in range(size)]
    for each in threads:
        each.start()
    if dies_at:
        died.wait()
        keys.end_all()
    for each in threads:
        each.join()
    return seen


def whole(size, meetings=1):
    return [[[f"{member} in {i}".encode() for member in range(size)] for i in range(meetings)]] * size


def test_many_meetings_of_the_same_members_are_each_of_all():
    assert one_try(SharedKeys(), 3, {}, meetings=30) == whole(3, 30)


@pytest.mark.every_variant
@pytest.mark.parametrize("seed", range(40))
def test_whatever_earlier_tries_have_left_the_living_meet(seed):
    chance, keys = random.Random(seed), SharedKeys()
    size = chance.choice([2, 3, 5])
    for _ in range(chance.randrange(1, 6)):
        dying = chance.sample(range(size), chance.randrange(1, size + 1))
        seen = one_try(keys, size, {member: chance.randrange(MOST_OPERATIONS) for member in dying})
        assert all(each == whole(size)[0] or isinstance(each, Killed) for each in seen), seen
    assert one_try(keys, size, {}, meetings=2) == whole(size, 2)


def test_a_death_at_any_operation_of_any_member_harms_no_later_try():
    for member in range(3):
        for at in range(MOST_OPERATIONS):
            keys = SharedKeys()
            one_try(keys, 3, {member: at})
            assert one_try(keys, 3, {}) == whole(3), (member, at)
