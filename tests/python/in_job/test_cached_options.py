"""Options are made once and found by their arguments. Equal arguments may differ, as 0.0 and -0.0 show."""

import math

import numpy
import pytest

import dabke
from dabke._frontend import options

torch = pytest.importorskip("torch")
import dabke.torch as hvd  # noqa: E402
from dabke.torch import options as torch_options  # noqa: E402

FACTORS = ["prescale_factor", "postscale_factor"]
ONES = [1.0, 2.0, 3.0, 4.0]


def array():
    return numpy.array(ONES * dabke.size())


def tensor():
    return torch.tensor(ONES * dabke.size())


CALLS = {
    "allreduce": lambda **how: dabke.allreduce(array(), op=dabke.Sum, **how),
    "allreduce_": lambda **how: dabke.allreduce_(array(), op=dabke.Sum, **how),
    "grouped_allreduce": lambda **how: dabke.grouped_allreduce([array()], op=dabke.Sum, **how)[0],
    "reducescatter": lambda **how: dabke.reducescatter(array(), op=dabke.Sum, **how),
    "grouped_reducescatter": lambda **how: dabke.grouped_reducescatter([array()], op=dabke.Sum, **how)[0],
    "torch allreduce": lambda **how: hvd.allreduce(tensor(), op=hvd.Sum, **how),
    "torch grouped_allreduce": lambda **how: hvd.grouped_allreduce([tensor()], op=hvd.Sum, **how)[0],
    "torch reducescatter": lambda **how: hvd.reducescatter(tensor(), op=hvd.Sum, **how),
}


def signs(result):
    return {math.copysign(1, each) for each in numpy.asarray(result).ravel().tolist()}


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("call", CALLS)
def test_a_zero_keeps_its_sign_whichever_came_first(call, factor):
    run = CALLS[call]
    for zero in (0.0, -0.0, 0.0, -0.0):
        result = numpy.asarray(run(**{factor: zero}))
        assert not result.any() and signs(result) == {math.copysign(1, zero)}


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("call", ["allreduce", "reducescatter", "torch allreduce"])
def test_a_zero_keeps_its_sign_under_a_name_that_has_been_seen(call, factor):
    for zero in (0.0, 0.0, 0.0, -0.0, -0.0, 0.0):
        result = CALLS[call](name=f"seen {factor}", **{factor: zero})
        assert signs(result) == {math.copysign(1, zero)}


@pytest.mark.parametrize("call", ["allreduce", "torch allreduce"])
def test_a_rank_that_has_used_the_other_zero_agrees_with_those_that_have_not(job, call):
    if job.rank == 1:  # as a call on this rank alone would leave it
        for zero in (0.0, -0.0):
            options.options_of(0, dabke.Sum, zero, 1.0)
            torch_options.options_of(0, int(hvd.Sum), zero, 1.0)
    assert signs(CALLS[call](prescale_factor=-0.0)) == {-1.0}
    assert signs(CALLS[call](prescale_factor=0.0)) == {1.0}


def test_ranks_that_scale_by_different_zeros_disagree(job):
    with pytest.raises(dabke.errors.MismatchError, match="scale factor"):
        CALLS["allreduce"](prescale_factor=-0.0 if job.rank else 0.0)


@pytest.mark.parametrize(
    "one", [1, True, 1.0, numpy.float32(1), numpy.int64(1)], ids=lambda one: type(one).__name__
)
def test_a_one_of_any_type_is_a_one(job, one):
    for call in ("allreduce", "torch allreduce"):
        result = CALLS[call](prescale_factor=one, postscale_factor=2)
        assert numpy.asarray(result).tolist() == [2 * job.size * each for each in ONES] * job.size


@pytest.mark.parametrize("arguments", [{"root_rank": 1.0}, {"priority": 1.0}, {"root_rank": "1"}], ids=str)
def test_what_is_refused_is_refused_whatever_came_before(arguments):
    for _ in range(2):
        with pytest.raises(TypeError):
            dabke.broadcast(numpy.ones(3), **arguments)
        dabke.broadcast(numpy.ones(3), **{name: 1 for name in arguments})
