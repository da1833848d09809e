#!/usr/bin/env python3
"""NumPy reads an output that outlives its handle and the job, and gives it back.

numpy_dlpack_test.py LIBDABKE
"""

import ctypes
import gc
import sys
import unittest

try:
    import numpy
except ImportError:
    numpy = None

LIBRARY = None
DEVICE_CPU, FLOAT = 1, 2


class DLTensor(ctypes.Structure):
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


class Capsuled:
    """Hands a managed tensor over in a capsule, as numpy.from_dlpack asks. The capsule owns nothing of the
    tensor."""

    def __init__(self, tensor, name):
        self.tensor, self.name = tensor, name

    def __dlpack_device__(self):
        return (DEVICE_CPU, 0)

    def __dlpack__(self, **_):
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(self.tensor, self.name, None)


def check(status):
    if status != 0:
        raise AssertionError(f"status {status}: {LIBRARY.dabke_last_error().decode()}")


def gathered(hand_over):
    """Gathers [[0, 1, 2], [3, 4, 5]] in a job of its own, frees the handle, and returns the output as
    DLPack."""
    numbers = (ctypes.c_float * 6)(*range(6))
    shape = (ctypes.c_int64 * 2)(2, 3)
    tensor = DLTensor(ctypes.addressof(numbers), DEVICE_CPU, 0, 2, FLOAT, 32, 1, shape, None, 0)
    handle, output = ctypes.c_void_p(), ctypes.c_void_p()
    check(LIBRARY.dabke_init(None))
    check(LIBRARY.dabke_allgather(b"rows", ctypes.byref(tensor), None, ctypes.byref(handle)))
    check(hand_over(handle, ctypes.c_size_t(0), ctypes.byref(output)))
    LIBRARY.dabke_handle_free(handle)
    check(LIBRARY.dabke_shutdown())
    ctypes.memset(numbers, 0, ctypes.sizeof(numbers))
    return output


class NumpyReads(unittest.TestCase):
    def read(self, hand_over, name):
        array = numpy.from_dlpack(Capsuled(gathered(hand_over), name))
        self.assertEqual(array.tolist(), [[0, 1, 2], [3, 4, 5]])
        self.assertEqual(array.dtype, numpy.float32)
        part = array[1]
        del array
        gc.collect()
        check(LIBRARY.dabke_init(None))  # another job
        self.assertEqual(part.tolist(), [3, 4, 5])
        check(LIBRARY.dabke_shutdown())
        return part

    def test_a_tensor_of_before_dlpack_1(self):
        self.read(LIBRARY.dabke_handle_output_dlpack, b"dltensor")

    def test_a_versioned_tensor_which_may_be_written(self):
        if tuple(int(x) for x in numpy.__version__.split(".")[:2]) < (2, 1):
            self.skipTest(f"NumPy {numpy.__version__} does not read them; 2.1 does")
        part = self.read(LIBRARY.dabke_handle_output_dlpack_versioned, b"dltensor_versioned")
        self.assertTrue(part.flags.writeable)


if __name__ == "__main__":
    if numpy is None:
        print("skipped: NumPy is not there")
        sys.exit(77)
    LIBRARY = ctypes.CDLL(sys.argv[1])
    LIBRARY.dabke_last_error.restype = ctypes.c_char_p
    for function in (
        "dabke_handle_free",
        "dabke_handle_output_dlpack",
        "dabke_handle_output_dlpack_versioned",
    ):
        getattr(LIBRARY, function).argtypes = (
            [ctypes.c_void_p]
            if function.endswith("free")
            else [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        )
    unittest.main(argv=sys.argv[:1])
