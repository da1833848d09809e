"""PyTorch's own tests of torch.distributed, for a backend that they do not know.

The module that ships with PyTorch leaves out tests by the backend's name, when it is imported. So it is
imported under the name of the backend that ours is compared with, and gets our name afterwards. The
tests then run as they are in the wheel.
"""

import functools
import importlib
import os
import sys
import unittest.mock

MODULE = "torch.testing._internal.distributed.distributed_test"
PROFILED = (
    "PROFILING_SUPPORTED_BACKENDS CUDA_PROFILING_SUPPORTED_BACKENDS SEND_RECV_PROFILING_SUPPORTED_BACKENDS"
)


class CountedAs(str):
    """A backend's name that equals another name, too. Some tests compare the name while they run."""

    other = "gloo"

    def __eq__(self, name):
        return str.__eq__(self, name) or name == self.other

    def __ne__(self, name):
        return not self == name

    __hash__ = str.__hash__


def load(backend, ranks, counted_as="gloo"):
    """Returns the class with the tests, for one backend and number of ranks. Call it once in a process."""
    os.environ.update(BACKEND=counted_as, WORLD_SIZE=str(ranks), INIT_METHOD="file:///replaced")
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    module = importlib.import_module(MODULE)
    if backend != counted_as:
        os.environ["BACKEND"] = backend
        module.BACKEND = CountedAs(backend)
        CountedAs.other = counted_as
        for name in PROFILED.split():
            getattr(module, name).append(backend)
        importlib.import_module("dabke.distributed")
        module.dist.monitored_barrier = _asking_the_group(module.dist.monitored_barrier, counted_as)
    return type(
        "Tests",
        (module.TestDistBackend, module.DistributedTest._DistTestBase),
        {"__module__": MODULE},
    )


def _asking_the_group(monitored_barrier, name):
    """Returns torch's function without its refusal of all backends but Gloo."""
    c10d = sys.modules["torch.distributed.distributed_c10d"]

    @functools.wraps(monitored_barrier)
    def call(*arguments, **more):
        with unittest.mock.patch.object(c10d, "get_backend", lambda group=None: name):
            return monitored_barrier(*arguments, **more)

    return call


def names_of(tests):
    return sorted(name for name in dir(tests) if name.startswith("test_"))


def skip_codes():
    """The exit codes of a rank by which a test skips itself, with the reasons."""
    common = importlib.import_module("torch.testing._internal.common_distributed")
    return {skip.exit_code: skip.message for skip in common.TEST_SKIPS.values()}
