"""Devices that a program registers with PyTorch, as text for the programs of tests.

Their memory is the host's, but PyTorch and the package see a separate device: data moves between the two only
by copies.
"""

import pytest

torch = pytest.importorskip("torch")
registration = pytest.importorskip("torch.utils.backend_registration")
if not hasattr(registration, "_setup_privateuseone_for_python_backend"):
    pytest.skip("this version of PyTorch takes no device that is written in Python", allow_module_level=True)

FAR = '''
import torch
import dabke.torch as hvd
from torch.utils import backend_registration
from torch.utils._pytree import tree_map

backend_registration._setup_privateuseone_for_python_backend("far")
memory = {}  # what is in each storage of the device

def near(thing):
    if isinstance(thing, torch.device) and thing.type == "far":
        return torch.device("cpu")
    if isinstance(thing, torch.Tensor) and thing.device.type == "far":
        return memory[thing.untyped_storage()._cdata]
    return thing

def settled():
    """Before the device reads or writes something."""

def only_describes(op):
    result = op._schema.returns[0].alias_info if op._schema.returns else None
    return op._schema.name.startswith("aten::empty") or (result is not None and not result.is_write)

def placed(tensor):
    """A near tensor where the device can have it."""
    return tensor

def far(tensor):
    made = torch._C._acc.create_empty_tensor(tensor.shape, tensor.dtype)
    memory[made.untyped_storage()._cdata] = placed(tensor)
    return made

def run_near(op, *arguments, **named):
    given = [each for each in (*arguments, *named.values()) if isinstance(each, torch.Tensor)]
    if not only_describes(op):
        settled()
    near_arguments, near_named = tree_map(near, (arguments, named))
    def back(result):
        if not isinstance(result, torch.Tensor):
            return result
        same = [each for each in given if near(each) is result]
        return same[0] if same else far(result)
    return tree_map(back, op(*near_arguments, **near_named))

def copy_from(source, target, non_blocking=False):
    settled()
    near(target).copy_(near(source))
    return target

library = torch.library.Library("_", "IMPL")
library.fallback(run_near, "PrivateUse1")
torch.library.impl("aten::_copy_from", "PrivateUse1", copy_from)

def values(tensor):
    assert tensor.device.type == "far", tensor.device
    return tensor.detach().cpu().tolist()
'''

# The same device, which PyTorch reports as a CUDA device. Its memory is that of the double of
# tests/fake_cuda. Its work follows the work in the double's only stream. So the package handles its tensors
# like those of a GPU.
CUDA = (
    """
import ctypes
import os
import threading
from types import SimpleNamespace
from dabke import _core

doubles = [ctypes.CDLL(os.path.join(os.environ['DABKE_TEST_DOUBLES'], name)) for name in ('libcuda.so.1', 'libnccl.so.2')]
Work = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

def function(name, result, *arguments):
    made = getattr(doubles[0], name)
    made.restype, made.argtypes = result, arguments
    return made

allocate = function('fake_cuda_allocate', ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
enqueue_work = function('fake_cuda_enqueue', None, ctypes.c_void_p, Work, ctypes.c_void_p)
synchronize_stream = function('fake_cuda_synchronize', None, ctypes.c_void_p)
open_stream = function('fake_cuda_open_stream', ctypes.c_void_p, ctypes.c_int)
kept = []
"""
    + FAR
    + """
stream = open_stream(0)
ranges = set()  # the storages that are the device's

def enqueue(what):
    kept.append(Work(lambda _: what()))
    enqueue_work(stream, kept[-1], None)

def settled():
    synchronize_stream(stream)

def placed(tensor):
    if tensor.untyped_storage().data_ptr() in ranges and tensor.is_contiguous():
        return tensor
    bytes = max(64, tensor.numel() * tensor.element_size())
    pointer = allocate(0, bytes)
    flat = torch.frombuffer((ctypes.c_char * bytes).from_address(pointer), dtype=tensor.dtype)
    ranges.add(flat.untyped_storage().data_ptr())
    return flat[:tensor.numel()].view(tensor.shape).copy_(tensor.contiguous())

def from_output(output):
    if output.__dlpack_device__()[0] != 2:
        return dlpack(output)
    dtype = getattr(torch, output.dtype)
    bytes = torch.Size(output.shape).numel() * dtype.itemsize
    if bytes == 0:
        return far(torch.empty(output.shape, dtype=dtype))
    kept.append(output)
    flat = torch.frombuffer((ctypes.c_char * bytes).from_address(output.pointer), dtype=dtype)
    ranges.add(flat.untyped_storage().data_ptr())
    return far(flat.view(output.shape))

near_pointer, dlpack = torch.Tensor.data_ptr, torch.utils.dlpack.from_dlpack
torch.Tensor.data_ptr = lambda self: near_pointer(near(self))
torch.Tensor.is_cuda = property(lambda self: self.device.type == "far")
torch.Tensor.record_stream = lambda self, stream: None
torch.utils.dlpack.from_dlpack = from_output
torch.cuda.current_stream = lambda device=None: SimpleNamespace(cuda_stream=stream)

class Late:
    """
    + '"""What the stream writes into a tensor, once it is let; '
    'by itself only where something has waited for it."""'
    + """
    def __init__(self, tensor, values):
        self.gate, self.was_let = threading.Event(), False
        pointer, data = tensor.data_ptr(), placed(values)
        def write():
            self.was_let = self.gate.wait(30)
            ctypes.memmove(pointer, near_pointer(data), values.numel() * values.element_size())
        enqueue(write)
    def let(self):
        assert not self.was_let and not self.gate.is_set()
        self.gate.set()
        settled()
        assert self.was_let, "something has waited for the data"

def check_waits_on_the_host_are_none(late, *handles):
    assert not any(each.poll() for each in handles)
    late.let()
"""
)
# Two ranks with one device.
ON_ONE_DEVICE = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "FAKE_CUDA_DEVICES": "1"}
