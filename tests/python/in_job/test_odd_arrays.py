"""Arrays that are not plain memory: each gives the result of NumPy, or is refused before data moves."""

import ctypes

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided
from numpy.testing import assert_array_equal

import dabke
from dabke.errors import InvalidArgumentError, UnsupportedError

torch = pytest.importorskip("torch")


# ---- makers of odd arrays: each takes an array and makes another one with the same values ----


def field_of_a_record(values):
    """An array whose stride is not a multiple of its element's size."""
    records = numpy.zeros(values.shape, [("before", "i2"), ("value", values.dtype), ("behind", "u1")])
    records["value"] = values
    return records["value"]


def padded(values):
    whole = numpy.zeros([2 * each for each in values.shape], values.dtype)
    part = whole[tuple(slice(None, None, 2) for _ in values.shape)]
    part[...] = values
    return part


def reversed_in_memory(values):
    backwards = tuple(slice(None, None, -1) for _ in values.shape)
    return values[backwards].copy()[backwards]


def by_columns(values):
    return numpy.asfortranarray(values)


def at_an_odd_address(values):
    memory = numpy.zeros(values.nbytes + 1, "u1")[1:]
    odd = memory.view(values.dtype).reshape(values.shape)
    odd[...] = values
    return odd


def in_the_other_byte_order(values):
    return values.astype(values.dtype.newbyteorder())


def read_only(values):
    frozen = values.copy()
    frozen.flags.writeable = False
    return frozen


class Exported:
    """An array as another library would export it, only by DLPack: `values` behind some bytes, in column
    order."""

    class _Tensor(ctypes.Structure):
        _fields_ = [
            ("data", ctypes.c_void_p),
            ("device_type", ctypes.c_int32),
            ("device_id", ctypes.c_int32),
            ("ndim", ctypes.c_int32),
            ("code", ctypes.c_uint8),
            ("bits", ctypes.c_uint8),
            ("lanes", ctypes.c_uint16),
            ("shape", ctypes.POINTER(ctypes.c_int64)),
            ("strides", ctypes.POINTER(ctypes.c_int64)),
            ("byte_offset", ctypes.c_uint64),
        ]

    class _Managed(ctypes.Structure):
        pass

    class _Versioned(ctypes.Structure):
        pass

    _DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    _Managed._fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]
    _Versioned._fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]
    _CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
    alive = []  # exported memory is never freed

    def __init__(self, values, offset=24, by_columns=False, flags=0):
        self.values, self._flags = values, flags
        self._offset = offset
        self._memory = numpy.zeros(values.nbytes + offset, "u1")
        self.array = numpy.ndarray(
            values.shape, values.dtype, self._memory, offset, order="F" if by_columns else "C"
        )
        self.array[...] = values

    def __dlpack__(self, max_version=None):
        if self._flags and max_version is None:
            raise BufferError("this can be exported with its flags only")
        array, versioned = self.array, max_version is not None
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        strides = (ctypes.c_int64 * array.ndim)(*(each // array.itemsize for each in array.strides))
        tensor = self._Tensor(
            self._memory.ctypes.data,
            1,
            0,
            array.ndim,
            self._CODES[array.dtype.kind],
            8 * array.itemsize,
            1,
            shape,
            strides,
            self._offset,
        )
        managed = (
            self._Versioned(1, 0, None, None, self._flags, tensor)
            if versioned
            else self._Managed(tensor, None, None)
        )
        self.alive.append((self, managed, shape, strides))
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(managed), b"dltensor_versioned" if versioned else b"dltensor", None)

    def __dlpack_device__(self):
        return 1, 0


def memoryview_with_gaps(values):
    if values.ndim != 1:
        return memoryview(padded(values))
    return memoryview(numpy.repeat(values, 3))[::3]


def torch_by_columns(values):
    return torch.from_numpy(numpy.asfortranarray(values).T.copy()).T


INPUTS = {
    "field of a record": field_of_a_record,
    "padded": padded,
    "reversed": reversed_in_memory,
    "by columns": by_columns,
    "at an odd address": at_an_odd_address,
    "in the other byte order": in_the_other_byte_order,
    "field in the other byte order": lambda values: in_the_other_byte_order(field_of_a_record(values)),
    "read-only": read_only,
    "memoryview with gaps": memoryview_with_gaps,
    "memoryview": lambda values: memoryview(values.copy()),
    "ctypes": lambda values: numpy.ctypeslib.as_ctypes(values.copy()),
    "memmap": lambda values: values.copy().view(numpy.memmap),
    "record array": lambda values: numpy.rec.fromarrays([values, values], names="a,b").a,
    "DLPack behind an offset": Exported,
    "DLPack at an odd address": lambda values: Exported(values, offset=13),
    "DLPack by columns": lambda values: Exported(values, by_columns=True),
    "DLPack that is read-only": lambda values: Exported(values, flags=1),
    "torch by columns": torch_by_columns,
}


def rows(job):
    return numpy.arange(6.0 * job.size).reshape(2 * job.size, 3)


def halves(rank_values, size):
    """The result of each rank of an alltoall with equal parts."""
    return [
        numpy.concatenate(
            [each[rank * len(each) // size : (rank + 1) * len(each) // size] for each in rank_values]
        )
        for rank in range(size)
    ]


# By name: the call, and this rank's result by NumPy from all ranks' inputs.
SUM = {"op": dabke.Sum}
CALLS = {
    "allreduce": (lambda x: dabke.allreduce(x, **SUM), lambda all, rank: sum(all)),
    "allreduce_async": (
        lambda x: dabke.synchronize(dabke.allreduce_async(x, **SUM)),
        lambda all, rank: sum(all),
    ),
    "allreduce into an output": (
        lambda x: dabke.allreduce(x, out=numpy.empty(numpy.shape(x), native(x)), **SUM),
        lambda all, rank: sum(all),
    ),
    "grouped_allreduce": (lambda x: dabke.grouped_allreduce([x, x], **SUM)[1], lambda all, rank: sum(all)),
    "allgather": (dabke.allgather, lambda all, rank: numpy.concatenate(all)),
    "grouped_allgather": (
        lambda x: dabke.grouped_allgather([x, x])[1],
        lambda all, rank: numpy.concatenate(all),
    ),
    "broadcast": (lambda x: dabke.broadcast(x, 1), lambda all, rank: all[1]),
    "broadcast_async": (lambda x: dabke.synchronize(dabke.broadcast_async(x, 1)), lambda all, rank: all[1]),
    "alltoall": (dabke.alltoall, lambda all, rank: halves(all, len(all))[rank]),
    "reducescatter": (
        lambda x: dabke.reducescatter(x, **SUM),
        lambda all, rank: numpy.array_split(sum(all), len(all))[rank],
    ),
    "grouped_reducescatter": (
        lambda x: dabke.grouped_reducescatter([x, x], **SUM)[1],
        lambda all, rank: numpy.array_split(sum(all), len(all))[rank],
    ),
}


def native(thing):
    dtype = getattr(thing, "dtype", None)
    return dtype.newbyteorder("=") if isinstance(dtype, numpy.dtype) else "float64"


def bytes_of(array):
    while array.base is not None and isinstance(array.base, numpy.ndarray):
        array = array.base
    return array.tobytes()


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", INPUTS)
def test_an_input_is_what_numpy_says_it_is(job, kind, call):
    run, wanted = CALLS[call]
    everyones = [rows(job) * (rank + 1) + 0.25 for rank in range(job.size)]
    odd = INPUTS[kind](everyones[job.rank])
    before = bytes_of(odd) if isinstance(odd, numpy.ndarray) else None
    if "output" in call and not isinstance(odd, numpy.ndarray):
        result = dabke.allreduce(odd, out=numpy.empty_like(everyones[0]), op=dabke.Sum)
    else:
        result = run(odd)
    assert_array_equal(result, wanted(everyones, job.rank))
    assert result.dtype == "float64" and result.dtype.isnative
    assert before is None or bytes_of(odd) == before


@pytest.mark.parametrize("dtype", ["int16", "uint32", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize(
    "kind", ["field of a record", "in the other byte order", "at an odd address", "reversed"]
)
def test_every_size_of_element_comes_out_right(job, dtype, kind):
    everyones = [numpy.arange(7).astype(dtype) + rank for rank in range(job.size)]
    result = dabke.allreduce(INPUTS[kind](everyones[job.rank]), op=dabke.Sum)
    assert result.dtype == numpy.dtype(dtype)
    assert_array_equal(result, sum(everyones))


def test_rows_that_are_one_row_in_memory_count_as_often_as_they_are_seen(job):
    seen = numpy.broadcast_to(numpy.arange(3.0) + job.rank, (4, 3))
    row = numpy.arange(3.0) * job.size + sum(range(job.size))
    assert_array_equal(dabke.allreduce(seen, op=dabke.Sum), [row] * 4)
    assert_array_equal(
        dabke.allgather(seen), numpy.repeat([numpy.arange(3.0) + rank for rank in range(job.size)], 4, axis=0)
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda value: numpy.array(value),
        numpy.float64,
        lambda value: in_the_other_byte_order(numpy.array(value)),
        lambda value: field_of_a_record(numpy.array(value)),
    ],
    ids=["array", "scalar", "swapped", "field"],
)
def test_a_thing_without_dimensions_has_one_element(job, make):
    result = dabke.allreduce(make(job.rank + 0.5), op=dabke.Sum)
    assert numpy.shape(result) == () and result == sum(rank + 0.5 for rank in range(job.size))
    assert dabke.broadcast(make(job.rank + 0.5), 1) == 1.5


@pytest.mark.parametrize(
    "kind", ["field of a record", "reversed", "by columns", "in the other byte order", "padded"]
)
def test_what_has_no_elements_has_none_behind_it(job, kind):
    empty = INPUTS[kind](numpy.empty((0, 3)))
    assert dabke.allreduce(empty).shape == (0, 3)
    mine = empty if job.rank else numpy.ones((1, 3))
    assert_array_equal(dabke.allgather(mine), numpy.ones((1, 3)))


def test_a_matrix_is_its_elements(job):
    mine = numpy.matrix([[1.0, 2], [3, 4]]) * (job.rank + 1)
    total = sum(range(1, job.size + 1))
    result = dabke.allreduce(mine.T, op=dabke.Sum)
    assert type(result) is numpy.ndarray
    assert_array_equal(result, numpy.array([[1.0, 3], [2, 4]]) * total)
    assert dabke.allreduce_(mine, op=dabke.Sum) is mine
    assert_array_equal(mine, numpy.array([[1.0, 2], [3, 4]]) * total)


def test_bfloat16_in_the_other_byte_order_is_refused_or_right(job):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    strided = numpy.arange(8).astype(ml_dtypes.bfloat16)[::2]
    assert dabke.allreduce(strided, op=dabke.Max).astype("float32").tolist() == [0, 2, 4, 6]
    assert dabke.allreduce(field_of_a_record(strided), op=dabke.Max).astype("float32").tolist() == [
        0,
        2,
        4,
        6,
    ]
    swapped = strided.astype(strided.dtype.newbyteorder())
    try:
        assert dabke.allreduce(swapped, op=dabke.Max).astype("float32").tolist() == [0, 2, 4, 6]
    except (InvalidArgumentError, UnsupportedError):
        pass


@st.composite
def indexings(draw):
    """A shape, and slices of it with any start, end and step."""
    shape = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    bound = st.none() | st.integers(-6, 6)
    slices = [
        slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, 2, -1, -2, 3, -3]))) for _ in shape
    ]
    return shape, tuple(slices), draw(st.permutations(range(len(shape))))


@given(
    indexing=indexings(),
    kind=st.sampled_from(["plain", "field of a record", "in the other byte order", "at an odd address"]),
)
def test_any_view_is_what_numpy_says_it_is(indexing, kind):
    shape, slices, axes = indexing
    plain = numpy.arange(numpy.prod(shape), dtype="float32").reshape(shape)
    view = (INPUTS[kind](plain) if kind != "plain" else plain)[slices].transpose(axes)
    wanted = plain[slices].transpose(axes)
    for result in (
        dabke.allreduce(view, op=dabke.Max),
        dabke.broadcast(memoryview(view) if plain.size and kind == "plain" else view),
    ):
        assert result.shape == wanted.shape
        assert_array_equal(result, wanted)


# ---- outputs: memory that is not plain is never written to ----


def one_element_for_all(values):
    return as_strided(numpy.zeros(1, values.dtype), values.shape, (0,) * values.ndim)


OUTPUTS = {
    name: INPUTS[name]
    for name in (
        "field of a record",
        "padded",
        "reversed",
        "by columns",
        "at an odd address",
        "in the other byte order",
        "read-only",
        "memoryview with gaps",
        "DLPack at an odd address",
        "DLPack by columns",
        "DLPack that is read-only",
    )
}
OUTPUTS["one element for all"] = one_element_for_all
IN_PLACE = {
    "allreduce_": dabke.allreduce_,
    "allreduce_async_": lambda x: dabke.synchronize(dabke.allreduce_async_(x)),
    "allreduce with itself as output": lambda x: dabke.allreduce(x, out=x),
    "grouped_allreduce_": lambda x: dabke.grouped_allreduce_([numpy.ones(3), x]),
    "broadcast_": dabke.broadcast_,
}
INTO = {
    "allreduce": lambda x, out: dabke.allreduce(x, out=out),
    "grouped_allreduce": lambda x, out: dabke.grouped_allreduce([x], out=[out]),
    "allgather": lambda x, out: dabke.allgather(x[: len(x) // dabke.size()], out=out),
    "broadcast": lambda x, out: dabke.broadcast(x, out=out),
    "alltoall": lambda x, out: dabke.alltoall(x, out=out),
    "reducescatter": lambda x, out: dabke.reducescatter(numpy.concatenate([x] * dabke.size()), out=out),
    "grouped_reducescatter": lambda x, out: dabke.grouped_reducescatter(
        [numpy.concatenate([x] * dabke.size())], out=[out]
    ),
}


def memory_behind(thing):
    return bytes_of(thing.array if isinstance(thing, Exported) else numpy.asarray(thing))


@pytest.mark.parametrize("kind", OUTPUTS)
@pytest.mark.parametrize("call", [*IN_PLACE, *(f"{name} with an output" for name in INTO)])
def test_an_output_that_is_not_plain_memory_is_refused(job, kind, call):
    values = rows(job)
    odd = OUTPUTS[kind](values)
    before = memory_behind(odd)
    run = IN_PLACE.get(call) or (lambda out: INTO[call.split()[0]](values, out))
    with pytest.raises(InvalidArgumentError) as refused:
        run(odd)
    assert memory_behind(odd) == before
    assert call.split()[0].strip("_").removeprefix("grouped_").removesuffix("_async") in str(refused.value)


def test_an_output_behind_an_offset_is_written_there(job):
    there = Exported(numpy.full(5, job.rank + 1.0))
    assert dabke.allreduce_(there, op=dabke.Sum) is there
    assert_array_equal(there.array, numpy.full(5, sum(range(1, job.size + 1))))
    assert not there._memory[:24].any()


# ---- arrays that no collective can take ----


def masked(values):
    return numpy.ma.masked_array(values, mask=values > 3)


NOTHING_WE_KNOW = {
    "masked": masked,
    "masked with nothing masked": numpy.ma.masked_array,
    "objects": lambda values: values.astype(object),
    "records": lambda values: numpy.zeros(values.shape, [("a", "f4"), ("b", "f4")]),
    "datetime64": lambda values: values.astype("int64").astype("datetime64[s]"),
    "timedelta64": lambda values: values.astype("int64").astype("timedelta64[s]"),
    "complex": lambda values: values.astype(complex),
    "long double": lambda values: values.astype("longdouble"),
    "text": lambda values: values.astype("U3"),
    "bytes of a length": lambda values: values.astype("S3"),
    "void": lambda values: values.view("V8"),
}


@pytest.mark.parametrize("kind", NOTHING_WE_KNOW)
@pytest.mark.parametrize("call", [*CALLS, *IN_PLACE])
def test_what_has_no_meaning_here_is_refused(job, kind, call):
    run = CALLS[call][0] if call in CALLS else IN_PLACE[call]
    thing = NOTHING_WE_KNOW[kind](rows(job))
    before = None if thing.dtype == object else bytes_of(thing)
    with pytest.raises((InvalidArgumentError, UnsupportedError)) as refused:
        run(thing)
    assert before is None or bytes_of(thing) == before
    assert (
        "mask" in str(refused.value)
        if kind.startswith("masked")
        else str(thing.dtype) in str(refused.value) or "format" in str(refused.value)
    )
