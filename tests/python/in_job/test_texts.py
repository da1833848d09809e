"""Every string is passed to C as a whole, or is refused: C strings end at a NUL, and C takes only UTF-8."""

import os
import pathlib

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import dabke
from dabke import _core, job as dabke_job
from dabke.errors import InvalidArgumentError

torch = pytest.importorskip("torch")
import dabke.torch as hvd  # noqa: E402

BAD = {
    "a NUL": "w\0a",
    "a NUL at the end": "w\0",
    "a NUL alone": "\0",
    "half of a pair": "w\udc80",
    "the other half": "\ud800",
}


def ones():
    return numpy.ones(2 * dabke.size())


def tensor():
    return torch.ones(2 * dabke.size())


def with_group(text):
    return _core.allreduce("member", ones(), None, _core.Options(group=text, group_size=2))


TAKERS = {
    "allreduce": lambda text: dabke.allreduce(ones(), text),
    "allreduce_": lambda text: dabke.allreduce_(ones(), text),
    "allreduce_async": lambda text: dabke.allreduce_async(ones(), text),
    "grouped_allreduce": lambda text: dabke.grouped_allreduce([ones(), ones()], text),
    "grouped_allreduce_": lambda text: dabke.grouped_allreduce_([ones(), ones()], text),
    "allgather": lambda text: dabke.allgather(ones(), text),
    "grouped_allgather": lambda text: dabke.grouped_allgather([ones()], text),
    "broadcast": lambda text: dabke.broadcast(ones(), name=text),
    "broadcast_": lambda text: dabke.broadcast_(ones(), name=text),
    "alltoall": lambda text: dabke.alltoall(ones(), name=text),
    "reducescatter": lambda text: dabke.reducescatter(ones(), text),
    "grouped_reducescatter": lambda text: dabke.grouped_reducescatter([ones()], text),
    "torch allreduce": lambda text: hvd.allreduce(tensor(), name=text),
    "torch grouped_allreduce": lambda text: hvd.grouped_allreduce([tensor()], name=text),
    "torch allgather": lambda text: hvd.allgather(tensor(), name=text),
    "torch broadcast": lambda text: hvd.broadcast(tensor(), 0, name=text),
    "torch alltoall": lambda text: hvd.alltoall(tensor(), name=text),
    "torch reducescatter": lambda text: hvd.reducescatter(tensor(), name=text),
    "torch broadcast_object": lambda text: hvd.broadcast_object(1, name=text),
    "torch allgather_object": lambda text: hvd.allgather_object(1, name=text),
    "group": with_group,
    "timeline": dabke.start_timeline,
    "dump": dabke.dump,
    "span": lambda text: dabke.annotate(text).__enter__(),
    "backend": dabke.backend_built,
    "backend in use": dabke.backend_enabled,
    "controller": dabke.controller_built,
    "controller in use": dabke.controller_enabled,
    "setting": lambda text: dabke_job.init(settings={"TIMELINE": text}),
    "name of a setting": lambda text: dabke_job.init(settings={text: "x"}),
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
@pytest.mark.parametrize("taker", TAKERS)
def test_what_would_be_cut_or_has_no_utf8_is_refused_and_shown(taker, text):
    with pytest.raises(InvalidArgumentError) as refused:
        TAKERS[taker](text)
    assert text.encode("unicode_escape").decode() in str(refused.value)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("path", [b"w\0a", b"w\xff", pathlib.PurePath("w\udcff")], ids=repr)
def test_a_path_of_bytes_is_refused_as_one_of_text(path):
    for take in (dabke.start_timeline, dabke.dump):
        with pytest.raises(InvalidArgumentError, match="path"):
            take(path)


def test_a_path_of_bytes_may_be_given(tmp_path):
    path = os.fsencode(tmp_path / "Gedächtnis")
    dabke.dump(path)
    assert b'"rank"' in open(path, "rb").read()


def test_tensors_of_two_names_are_two_tensors(job):
    names = [
        f"Schicht ä{end}" for end in ("", "€", "\U0001f680", "\x01", " ", "'", '"', "\\", "\n", "%s", "{}")
    ]
    handles = [
        dabke.allreduce_async(numpy.full(2, float(i)), name, dabke.Sum) for i, name in enumerate(names)
    ]
    for i, handle in enumerate(handles):
        assert_array_equal(dabke.synchronize(handle), numpy.full(2, float(i * job.size)))


# text() makes no surrogates by default; the filter is written so that the oldest Hypothesis supports it.
@given(name=st.text(min_size=1, max_size=40).filter(lambda name: "\0" not in name))
def test_any_other_text_is_a_name(name):
    assert dabke.allreduce(numpy.ones(1), name, dabke.Max).tolist() == [1]


def test_no_name_and_an_empty_one_are_none_at_all():
    for name in (None, ""):
        handle = dabke.allreduce_async(numpy.ones(3 + dabke.rank()), name)
        with pytest.raises(dabke.errors.MismatchError, match="noname"):
            dabke.synchronize(handle)


@pytest.mark.parametrize("letter", ["x", "ä", "€", "\U0001f680"])
def test_a_name_has_at_most_4096_bytes_of_utf8(letter):
    longest = letter * (4096 // len(letter.encode()))
    longest += "x" * (4096 - len(longest.encode()))
    assert dabke.allreduce(numpy.ones(1), longest, dabke.Max).tolist() == [1]
    for too_long, bytes in ((longest + "x", 4097), (letter * 300_000, 300_000 * len(letter.encode()))):
        with pytest.raises(
            InvalidArgumentError, match=f"has {bytes} bytes; a name has at most 4096"
        ) as refused:
            dabke.allreduce(numpy.ones(1), too_long)
        assert len(str(refused.value)) < 300
        with pytest.raises(InvalidArgumentError, match="at most 4096"):
            _core.allreduce("member", numpy.ones(1), None, _core.Options(group=too_long, group_size=2))


@pytest.mark.parametrize("name", [5, b"bytes", ["list"]], ids=repr)
def test_what_is_no_text_is_no_name(name):
    with pytest.raises(TypeError):
        dabke.allreduce(numpy.ones(1), name)
