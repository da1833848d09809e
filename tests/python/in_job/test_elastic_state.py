"""The state and the loop of elastic training, without a framework: commits, syncs from rosters, changes."""

import time
import weakref

import numpy
import pytest

import dabke
from dabke._frontend import elastic
from dabke._frontend.elastic import failures, packing, state as elastic_state
from dabke.errors import AbortedError, InvalidArgumentError, MismatchError, PeerLostError
from elastic_epochs import Epochs, batches_run

ELEMENTS = 300_007  # more than one part, and not a multiple of the alignment


@pytest.fixture
def epochs(monkeypatch):
    return Epochs(monkeypatch)


def own_values(job, elements=11):
    """Different values on each rank."""
    return {
        "weights": numpy.full(elements, job.rank, dtype=numpy.float32),
        "nested": {"moments": [numpy.arange(5) * job.rank], "empty": numpy.empty((0, 3))},
        "epoch": job.rank,
    }


def check_values(state, rank, elements=11):
    assert state.epoch == rank
    assert state.weights.dtype == numpy.float32 and state.weights.shape == (elements,)
    assert (state.weights == rank).all()
    assert state.nested["moments"][0].tolist() == [i * rank for i in range(5)]
    assert state.nested["empty"].shape == (0, 3)


def test_the_first_sync_gives_all_ranks_the_values_of_rank_0_as_commit_0(job, epochs):
    state = elastic.ObjectState(**own_values(job))
    state.sync()
    check_values(state, 0)
    assert state._number == 0
    state.epoch = 17
    state.restore()
    check_values(state, 0)


def holders_of(job):
    """Rosters: one holder, the last rank alone, all but the first, and all."""
    return [(0,), (job.size - 1,), tuple(range(1, job.size)), tuple(range(job.size))]


@pytest.mark.parametrize("roster", range(4))
@pytest.mark.parametrize("elements", [11, ELEMENTS])
def test_a_sync_gives_the_ranks_that_lack_state_the_commit_of_the_holders(job, epochs, roster, elements):
    holders = holders_of(job)[roster]
    state = elastic.ObjectState(**own_values(job, elements))
    state.sync()
    state.weights[:], state.epoch = 7, 7
    state.nested["moments"][0][:] = [7 * i for i in range(5)]
    state.save()
    if job.rank not in holders:
        state.weights[:], state.epoch = job.rank, -1  # and the copy of these has no number
        state.save()
    epochs.begin(newest=41, holders=holders)
    state.sync()
    check_values(state, 7, elements)
    assert state._number == 41
    state.weights[:] = 0
    state.restore()
    check_values(state, 7, elements)


def test_all_holders_send_a_part_at_the_same_time(job, epochs):
    """Each holder has other values, so the parts show their senders."""
    state = elastic.ObjectState(weights=numpy.zeros(1_000_000, numpy.uint8))
    state.sync()
    state.weights[:] = job.rank
    state.save()
    holders = tuple(range(job.size - 1))
    epochs.begin(newest=1, holders=holders)
    state.sync()
    if job.rank in holders:
        assert (state.weights == job.rank).all()
        return
    found = [int(numpy.count_nonzero(state.weights == holder)) for holder in holders]
    assert sum(found) == 1_000_000
    assert max(found) - min(found) < 1000


def test_the_holders_receive_nothing_if_there_are_at_least_as_many_as_receivers(job, epochs):
    state = elastic.ObjectState(weights=numpy.zeros(ELEMENTS, numpy.float32))
    state.sync()
    epochs.begin(newest=1, holders=tuple(range(job.size - 1)))
    before = batches_run()
    state.sync()
    run = batches_run() - before
    assert run["alltoall"] == 1 and run["broadcast"] == 1  # the arrays, and the pickle


def test_nothing_is_sent_if_all_ranks_hold_the_newest_commit(job, epochs):
    state = elastic.ObjectState(weights=numpy.full(10, job.rank))
    state.sync()
    state.weights[:] = job.rank
    state.commit()
    epochs.begin(newest=1, holders=range(job.size))
    before = batches_run()
    state.sync()
    assert batches_run() == before
    assert (state.weights == job.rank).all() and state._number == 1


def test_a_holder_whose_copy_has_another_form_sends_nothing(job, epochs):
    state = elastic.ObjectState(weights=numpy.zeros(1_000_000, numpy.uint8))
    state.sync()
    last_holder = job.size - 2
    state.weights = numpy.full(1_000_000 + 64 * (job.rank == last_holder and job.size > 2), 5, numpy.uint8)
    state.save()
    epochs.begin(newest=1, holders=range(job.size - 1))
    state.sync()
    if job.rank != last_holder:
        assert state.weights.size == 1_000_000 and (state.weights == 5).all()


def test_a_second_sync_in_an_epoch_sends_the_present_values_of_rank_0(job, epochs):
    state = elastic.ObjectState(epoch=0)
    state.sync()
    state.commit()
    state.epoch = 10 + job.rank
    state.sync()
    assert state.epoch == 10 and state._number == 2


class Spoilt:
    """An object that one rank cannot unpickle."""

    def __init__(self, rank):
        self.rank = rank

    def __reduce__(self):
        return _raise_on, (self.rank,)

    def __deepcopy__(self, memo):
        return self


def _raise_on(rank):
    if dabke.rank() == rank:
        raise OSError("not here")
    return "whole"


class Unpicklable(Spoilt):
    def __reduce__(self):
        raise TypeError("not this one")


@pytest.mark.parametrize("kind, what", [(Spoilt, "unpickle"), (Unpicklable, "pickle")])
def test_a_failed_sync_leaves_the_last_commit_on_every_rank(job, epochs, kind, what):
    state = elastic.ObjectState(value="first", weights=numpy.zeros(3))
    state.sync()
    state.value, state.weights = f"of {job.rank}", numpy.full(3, job.rank)
    state.commit()
    last = job.size - 1
    if job.rank == 0:
        state.value = kind(last)
        state.commit()
    epochs.begin(newest=2, holders=(0,))
    with pytest.raises(
        InvalidArgumentError, match=rf"rank {last if what == 'unpickle' else 0} cannot {what}"
    ):
        state.sync()
    if job.rank != 0:
        state.restore()
        assert state.value == f"of {job.rank}" and (state.weights == job.rank).all()
        assert state._number == 1


def test_the_last_commit_stays_until_the_copy_is_complete(job, epochs):
    class Refusing:
        def __init__(self):
            self.refuses = False

        def __deepcopy__(self, memo):
            if self.refuses:
                raise MemoryError
            return Refusing()

    state = elastic.ObjectState(first=[0], second=Refusing())
    for i in range(3):
        state.first[0] = i
        state.save()
    state.first[0], state.second.refuses = 99, True
    with pytest.raises(MemoryError):
        state.save()
    state.restore()
    assert state.first == [2]


def test_later_changes_do_not_reach_a_commit(job, epochs):
    state = elastic.ObjectState(values=[1], table={})
    state.save()
    state.values.append(2)
    state.restore()
    state.values.append(3)
    state.restore()
    assert state.values == [1]


def test_a_commit_without_its_copy_takes_at_most_5_us(job, monkeypatch):
    class Bare(elastic.State):
        def save(self):
            pass

    state = Bare()
    times = []
    for _ in range(200):
        begin = time.perf_counter()
        for _ in range(50):
            state.commit()
        times.append((time.perf_counter() - begin) / 50)
    assert sorted(times)[len(times) // 10] < 5e-6


# ---- the loop ----


def test_the_loop_restores_the_commit_after_a_failure_and_goes_on(job, epochs):
    state = elastic.ObjectState(step=0, seen=[])
    epochs.then(newest=2, holders=range(job.size))

    @elastic.run
    def train(state, stop):
        while state.step < stop:
            state.step += 1
            state.seen.append(state.step)
            if state.step == 3 and not epochs.left:
                raise PeerLostError("rank 9 is lost")
            state.commit()
        return state.seen

    assert train(state, stop=4) == [1, 2, 3, 4]
    assert epochs.left == [2] and state._number == 4


def test_steps_since_a_commit_count_once_if_ranks_are_lost_in_the_next_syncs_too(job, epochs, monkeypatch):
    marked = []
    monkeypatch.setattr(elastic_state, "marked_steps", lambda: len(marked))
    state = elastic.ObjectState(step=0)
    sync = state.sync

    def sync_that_fails_twice():
        if len(epochs.left) in (1, 2):
            raise PeerLostError("lost")
        sync()

    state.sync = sync_that_fails_twice
    for _ in range(4):
        epochs.then(newest=1, holders=range(job.size))

    @elastic.run
    def train(state):
        if len(epochs.left) == 4:
            return
        if not epochs.left:
            marked.extend("steps of the first commit")
            state.commit()
        marked.extend(range(2))
        raise PeerLostError("lost")

    train(state)
    assert epochs.repeated == [3, 0, 0, 3]


def test_the_loop_keeps_the_values_after_a_change_of_hosts(job, epochs):
    state = elastic.ObjectState(step=0)
    epochs.then(newest=2, holders=range(job.size))

    @elastic.run
    def train(state):
        while state.step < 4:
            state.step += 1
            epochs.changes = int(state.step == 2 and not epochs.left)
            state.commit()
        return state.step

    assert train(state) == 4
    assert epochs.left == [2]


def test_a_change_that_is_found_between_commits_commits(job, epochs):
    state = elastic.ObjectState(step=0)
    epochs.then(newest=1, holders=(0,))

    @elastic.run
    def train(state):
        if not epochs.left:
            state.step, epochs.changes = 5, 1
            state.check_host_updates()
        return state.step

    assert train(state) == 5
    assert epochs.left == [1]


def test_reset_callbacks_run_on_every_rank_when_the_state_is_equal(job, epochs):
    seen = []
    state = elastic.ObjectState(rate=0.1)
    state.register_reset_callbacks([lambda: seen.append(state.rate)])
    state.register_reset_callbacks([lambda: setattr(state, "rate", state.rate * 2)])
    epochs.then(newest=1, holders=(0,), former_ranks=(0, *[-1] * (job.size - 1)))

    @elastic.run
    def train(state):
        if not epochs.left:
            state.rate = 0.5
            if job.rank == 0:
                state.commit()
            raise dabke.HorovodInternalError("lost")
        return state.rate

    assert train(state) == 1.0
    assert seen == [0.5]


def test_reset_callbacks_do_not_run_in_the_first_epoch(job, epochs):
    state = elastic.ObjectState(step=0)
    state.register_reset_callbacks([lambda: pytest.fail("called")])
    elastic.run(lambda state: None)(state)


def test_a_rank_that_leaves_in_good_order_ends_with_status_0(job, epochs, capfd):
    state = elastic.ObjectState(step=0)
    epochs.leave("host b is no longer listed")

    @elastic.run
    def train(state):
        epochs.changes = 1
        state.commit()

    with pytest.raises(SystemExit) as end:
        train(state)
    assert end.value.code == 0
    assert capfd.readouterr().err == "dabke: this rank has left the job: host b is no longer listed\n"


def test_other_errors_go_up(job, epochs):
    for error in (ValueError("mine"), MismatchError("shapes"), InvalidArgumentError("no")):

        @elastic.run
        def train(state):
            raise error

        with pytest.raises(type(error)) as found:
            train(elastic.ObjectState())
        assert found.value is error
    assert epochs.left == []


def test_a_failure_inside_a_frameworks_error_is_found(job, epochs, monkeypatch):
    class FrameworksError(Exception):
        pass

    def translate(error):
        return AbortedError("inside") if isinstance(error, FrameworksError) else None

    monkeypatch.setattr(failures, "_translations", [translate])
    state = elastic.ObjectState(step=0)
    epochs.then(newest=0, holders=range(job.size))

    @elastic.run
    def train(state):
        if epochs.left:
            return "went on"
        try:
            raise FrameworksError
        except FrameworksError:
            raise KeyError("a layer's name") from None

    assert train(state) == "went on"


def test_hooks_of_a_frontend_run_before_the_sync_of_the_next_epoch(job, epochs, monkeypatch):
    seen = []
    monkeypatch.setattr(dabke.epochs, "_hooks", [lambda: seen.append(state.step)])
    state = elastic.ObjectState(step=1)
    epochs.then(newest=0, holders=range(job.size))

    @elastic.run
    def train(state):
        if not epochs.left:
            state.step = 2
            raise PeerLostError("lost")

    train(state)
    assert seen == [2]


def test_objects_of_the_function_are_gone_when_the_next_epoch_begins(job, epochs, monkeypatch):
    """An old DistributedDataParallel would keep its hooks on the gradients of the model."""
    made, seen = [], []
    monkeypatch.setattr(dabke.epochs, "_hooks", [lambda: seen.append(made[0]())])
    epochs.then(newest=0, holders=range(job.size))

    @elastic.run
    def train(state):
        if not epochs.left:
            thing = elastic.ObjectState(step=1)
            made.append(weakref.ref(thing))
            raise PeerLostError("lost")

    train(elastic.ObjectState(step=0))
    assert seen == [None]


def test_in_a_job_that_is_not_elastic_a_lost_rank_ends_the_function_with_advice(job):
    @elastic.run
    def train(state):
        raise PeerLostError("rank 3 is lost")

    with pytest.raises(PeerLostError, match="rank 3 is lost; .*dabkerun --min-np"):
        train(elastic.ObjectState(step=0))


def test_a_state_of_the_programs_own_runs_too(job, epochs):
    class Own(elastic.State):
        value, saved = job.rank, None

        def save(self):
            self.saved = self.value

        def restore(self):
            self.value = self.saved

        def sync(self):
            self.value = dabke.broadcast_object(self.value)
            self.save()

    state = Own()
    epochs.then(newest=1, holders=range(job.size))

    @elastic.run
    def train(state):
        if not epochs.left:
            state.value = 8
            state.commit()
            state.value = 9
            raise PeerLostError("lost")
        return state.value

    assert train(state) == 8
    assert epochs.left == [1]


@pytest.mark.parametrize("name", ["commit", "sync", "_number"])
def test_a_name_that_a_state_needs_itself_is_refused(job, name):
    with pytest.raises(InvalidArgumentError, match=f"'{name}' cannot be an attribute"):
        elastic.ObjectState(**{name: 1})


def test_the_first_argument_must_be_a_state(job):
    with pytest.raises(InvalidArgumentError, match="train is a dict; pass a state"):

        @elastic.run
        def train(state):
            pass

        train({})


def test_ranks_with_other_attributes_are_refused(job, epochs):
    state = elastic.ObjectState(**({"a": 1} if job.rank == 0 else {"b": 1}))
    if job.rank == 0:
        state.sync()
    else:
        with pytest.raises(InvalidArgumentError, match="has the attributes b, and a rank that sends has a"):
            state.sync()


# ---- packing ----


def test_arrays_travel_outside_of_the_pickle(job):
    values = {"a": numpy.arange(1000.0), "b": numpy.zeros((0,)), "c": numpy.ones((3, 5), order="F")}
    packed = packing.Packed(values)
    assert len(packed.head) < 1000 and sorted(packed.lengths)[-1] == 8000
    unpacked = packing.Unpacked(packed.head)
    for begin in range(0, packed.size, 100):
        end = min(packed.size, begin + 100)
        unpacked.memory[begin:end] = packed.part(begin, end)
    result = unpacked.value()
    assert all(numpy.array_equal(result[key], values[key]) for key in values)
    result["a"][0] = 5  # the memory can be written
