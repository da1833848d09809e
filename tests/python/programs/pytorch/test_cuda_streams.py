"""Tensors in the memory of CUDA devices, with the program's own streams, over the doubles of tests/fake_cuda
if present.

DABKE_TEST_DOUBLES names the doubles' folder; the package is of a build with -Dcuda.
"""

import os
import shutil
import sys

import pytest
from conftest import ended

import dabke

if not dabke.backend_built("nccl") or "DABKE_TEST_DOUBLES" not in os.environ:
    pytest.skip("it needs a build with -Dcuda, and DABKE_TEST_DOUBLES", allow_module_level=True)

DEVICE = """
import ctypes
import os
import threading
from dabke import _core
import dabke

doubles = [ctypes.CDLL(os.path.join(os.environ['DABKE_TEST_DOUBLES'], name)) for name in ('libcuda.so.1', 'libnccl.so.2')]
Work = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

def function(name, result, *arguments):
    made = getattr(doubles[0], name)
    made.restype, made.argtypes = result, arguments
    return made

allocate = function('fake_cuda_allocate', ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
open_stream = function('fake_cuda_open_stream', ctypes.c_void_p, ctypes.c_int)
default_stream = function('fake_cuda_default_stream', ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
enqueue_work = function('fake_cuda_enqueue', None, ctypes.c_void_p, Work, ctypes.c_void_p)
synchronize = function('fake_cuda_synchronize', None, ctypes.c_void_p)
kept = []

def enqueue(stream, what):
    kept.append(Work(lambda _: what()))
    enqueue_work(stream, kept[-1], None)

dabke.init()
rank = dabke.rank()
pointer = allocate(rank, 12)
memory = (ctypes.c_float * 3).from_address(pointer)
memory[:] = [0, 0, 0]
gate = threading.Event()

def write():
    gate.wait(300)
    memory[:] = [1, 2, 3]
"""


def test_a_collective_waits_for_a_stream_and_a_stream_for_it(run):
    done = run(
        DEVICE
        + """
tensor = _core.Tensor(pointer, (3,), _core.dtypes()['float32'], 2, rank)
stream = open_stream(rank)
enqueue(stream, write)
handle = _core.allreduce('x', tensor, None, _core.Options(op=1, stream=stream))
assert dabke.wait_stream(handle, stream, timeout=300)
assert not handle.poll()
seen = []
enqueue(stream, lambda: seen.extend(memory))
gate.set()
synchronize(stream)
assert seen == [2, 4, 6], seen
assert handle.wait()
dabke.shutdown()
"""
    )
    assert done.code == 0, done.output


def test_where_an_output_is_is_known_once_a_stream_waits_for_it(run):
    done = run(
        DEVICE
        + """
tensor = _core.Tensor(pointer, (3,), _core.dtypes()['float32'], 2, rank)
stream = open_stream(rank)
enqueue(stream, write)
handle = _core.allgather('x', tensor, None, _core.Options(stream=stream))
try:
    handle.output()
    raise AssertionError('it is not known yet')
except ValueError as error:
    assert 'wait for it first' in str(error), error
assert handle.wait_stream(stream)
output = handle.output()
assert output.shape == (6,) and output.__dlpack_device__() == (2, rank), output.shape
assert not handle.poll()
seen = []
enqueue(stream, lambda: seen.extend((ctypes.c_float * 6).from_address(output.pointer)))
gate.set()
synchronize(stream)
assert seen == [1, 2, 3] * 2, seen
assert handle.wait()
dabke.shutdown()
"""
    )
    assert done.code == 0, done.output


def test_what_speaks_dlpack_is_ready_behind_the_default_stream(run):
    done = run(
        DEVICE
        + """
class View(ctypes.Structure):  # a DLManagedTensor
    _fields_ = [('data', ctypes.c_void_p), ('device_type', ctypes.c_int), ('device_id', ctypes.c_int),
                ('ndim', ctypes.c_int), ('code', ctypes.c_uint8), ('bits', ctypes.c_uint8), ('lanes', ctypes.c_uint16),
                ('shape', ctypes.POINTER(ctypes.c_int64)), ('strides', ctypes.c_void_p), ('byte_offset', ctypes.c_uint64),
                ('manager_ctx', ctypes.c_void_p), ('deleter', ctypes.c_void_p)]

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

class Array:
    shape = (ctypes.c_int64 * 1)(3)
    view = View(data=pointer, device_type=2, device_id=rank, ndim=1, code=2, bits=32, lanes=1, shape=shape)

    def __dlpack__(self):
        return new_capsule(ctypes.addressof(self.view), b'dltensor', None)

enqueue(default_stream(1, rank), write)
handle = _core.allreduce('x', Array(), None, _core.Options(op=1))
assert not handle.wait(0.05)
gate.set()
assert handle.wait()
assert memory[:] == [2, 4, 6], memory[:]
dabke.shutdown()
"""
    )
    assert done.code == 0, done.output


@pytest.mark.parametrize("is_aware", ("no", "yes"))
def test_mpi_reads_an_input_once_the_stream_has_written_it_and_the_stream_reads_what_mpi_has_written(
    program, is_aware
):
    """Data moves through the host, or with a pointer of the device: the double's memory is the host's, so any
    MPI takes it."""
    if not shutil.which("mpirun.mpich") or not dabke.mpi_built():
        pytest.skip("it needs mpirun.mpich and its module")
    text = (
        "import array\n"
        + DEVICE
        + """
tensor = _core.Tensor(pointer, (3,), _core.dtypes()['float32'], 2, rank)
stream = open_stream(rank)
for number in range(1, 4):
    for collective, want in ((_core.allreduce, [2, 4, 6]), (_core.broadcast, [1, 2, 3])):
        memory[:] = [0, 0, 0]
        gate = threading.Event()
        enqueue(stream, write)
        handle = collective(f'{collective.__name__}', tensor, None, _core.Options(op=1, stream=stream))
        assert not handle.wait(0.05)  # the data is not there
        gate.set()
        assert dabke.wait_stream(handle, stream, timeout=300)
        seen = []
        enqueue(stream, lambda: seen.extend(memory))
        synchronize(stream)
        assert seen == want, (seen, want)
        assert handle.wait()
# In more than one round.
count = 5_000_001
big = allocate(rank, 4 * count)
ctypes.memmove(big, array.array('f', [float((i % 100) * (rank + 1)) for i in range(count)]).tobytes(), 4 * count)
tensor = _core.Tensor(big, (count,), _core.dtypes()['float32'], 2, rank)
total = array.array('f', [float((i % 100) * 3) for i in range(count)]).tobytes()
assert _core.allreduce('big', tensor, None, _core.Options(op=1)).wait() and ctypes.string_at(big, 4 * count) == total
ctypes.memset(big, rank, 4 * count)
assert _core.broadcast('big', tensor, None, _core.Options(root_rank=1)).wait() and ctypes.string_at(big, 4 * count) == bytes([1]) * 4 * count
dabke.shutdown()
print('done', flush=True)
"""
    )
    command = ["mpirun.mpich", "-np", 2, "timeout", "-k", 5, 200, sys.executable, program(text)]
    done = ended(command, 300, {"DABKE_GPU_OPERATIONS": "mpi", "DABKE_MPI_CUDA_AWARE": is_aware})
    assert done.code == 0 and done.output.count("done") == 2, done.output
