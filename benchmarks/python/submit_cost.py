#!/usr/bin/env python3
"""Measures what Python adds to a submit and to a blocking call, in microseconds.

    dabkerun -np 2 python benchmarks/python/submit_cost.py [--submits 100000] [--calls 20000]

The package and the same functions in C take turns, and their medians are subtracted. On a machine with other
work, the fastest tenth of the calls shows more. The C calls are timed in C: the C compiler makes a library of
a few lines, so their time includes nothing of ctypes.

submit   `allreduce_async_` of 8 bytes in place with a name, against dabke_allreduce_async: bursts of 100
         names, like the gradients of a step. Each submit is timed alone. Then all are waited for.
blocking `allreduce_` of 8 bytes, against dabke_allreduce.
"""

import argparse
import ctypes
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy

import dabke
from dabke import _core

INCLUDE = Path(__file__).resolve().parents[2] / "bindings/c/include"
C_CALLS = r"""
#include <dabke/dabke.h>
#include <time.h>
static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}
static int64_t shape[1] = {1};
static DLTensor tensor_of(double* data) {
  return (DLTensor){.data = data, .device = {kDLCPU, 0}, .ndim = 1,
                    .dtype = {kDLFloat, 64, 1}, .shape = shape};
}
void submit(double* data, const char* const* names, int64_t count, int64_t* took) {
  dabke_handle* handles[1000];
  dabke_options options = DABKE_OPTIONS_INIT;
  options.op = DABKE_SUM;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = now();
    DLTensor tensor = tensor_of(data + i);
    dabke_allreduce_async(names[i], &tensor, NULL, &options, &handles[i]);
    took[i] = now() - begin;
  }
  for (int64_t i = 0; i < count; ++i) {
    dabke_wait(handles[i], -1);
    dabke_handle_free(handles[i]);
  }
}
int64_t blocking(double* data) {
  DLTensor tensor = tensor_of(data);
  dabke_options options = DABKE_OPTIONS_INIT;
  options.op = DABKE_SUM;
  const int64_t begin = now();
  dabke_allreduce("blocking in C", &tensor, NULL, &options);
  return now() - begin;
}
"""

BURST = 100
clock = time.perf_counter_ns


class InC:
    """The same calls in C. Each function returns the nanoseconds that it took."""

    def __init__(self, array):
        with tempfile.TemporaryDirectory() as folder:
            source, library = Path(folder, "calls.c"), Path(folder, "calls.so")
            source.write_text(C_CALLS)
            subprocess.run(
                ["cc", "-O2", "-shared", "-fPIC", f"-I{INCLUDE}", source, "-o", library, loaded_library()],
                check=True,
            )
            calls = ctypes.CDLL(str(library))
        self.data = ctypes.c_void_p(array.ctypes.data)
        self.names = (ctypes.c_char_p * BURST)(*(f"in C {i}".encode() for i in range(BURST)))
        self.took = (ctypes.c_int64 * BURST)()
        self.submit_in_c, self.blocking = calls.submit, calls.blocking
        self.blocking.restype = ctypes.c_int64

    def submits(self):
        self.submit_in_c(self.data, self.names, ctypes.c_int64(BURST), self.took)
        return list(self.took)


def loaded_library():
    """Returns the path of the library that the package uses."""
    with open("/proc/self/maps") as maps:
        return next(line.split()[-1] for line in maps if "libdabke.so" in line)


def submits(count, array, in_c):
    """Returns the nanoseconds of each submit: by the package, and by C."""
    tensors = [array[i : i + 1] for i in range(BURST)]
    names = [f"in Python {i}" for i in range(BURST)]
    ours, theirs = [], []
    for _ in range(count // BURST):
        handles = []
        for tensor, name in zip(tensors, names):
            begin = clock()
            handle = dabke.allreduce_async_(tensor, name, dabke.Sum)
            ours.append(clock() - begin)
            handles.append(handle)
        for handle in handles:
            handle.wait()
        theirs += in_c.submits()
    return ours, theirs


def blocking(count, array, in_c):
    one = array[:1]
    ours, theirs = [], []
    for _ in range(count):
        begin = clock()
        dabke.allreduce_(one, "blocking", dabke.Sum)
        ours.append(clock() - begin)
        theirs.append(in_c.blocking(in_c.data))
    return ours, theirs


def compared(ours, theirs, tenths):
    """Returns the time in microseconds that so many tenths of the calls did not exceed."""
    python, c = (statistics.quantiles(each, n=10)[tenths - 1] / 1000 for each in (ours, theirs))
    return {"python": round(python, 2), "c": round(c, 2), "added": round(python - c, 2)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--submits", type=int, default=100_000)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--check", action="store_true", help="exit with 1 when Python adds more than 5 us")
    options = parser.parse_args()
    dabke.init()
    array = numpy.zeros(BURST)
    in_c = InC(array)
    rows = {}
    for name, measure, count in (("submit", submits, options.submits), ("blocking", blocking, options.calls)):
        measure(1000, array, in_c)
        ours, theirs = measure(count, array, in_c)
        rows[name] = {
            f"{part}_us": compared(ours, theirs, quantile) for part, quantile in (("median", 5), ("tenth", 1))
        }
    if dabke.rank() == 0:
        print(json.dumps({"ranks": dabke.size(), **rows}))
    assert _core.abandoned_operations() == 0
    dabke.shutdown()
    if options.check and any(row["median_us"]["added"] > 5 for row in rows.values()):
        raise SystemExit("Python adds more than 5 us")


if __name__ == "__main__":
    main()
