"""Code that torch.compile does not trace.

DistributedDataParallel calls a group from C++ within compiled code. Dynamo would then compile the functions
of this package, one by one, and fail at those that hold objects of C++.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch

__all__ = ["skip_package"]


def skip_package(name: str) -> None:
    """Lets Dynamo run all functions of the package's loaded modules as they are. Dynamo is not imported."""
    skip = _skip_function()
    if skip is None:
        return
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").split(".")[0] == name:
            for code in _codes_of(module):
                skip(code)


def _skip_function() -> Callable[[CodeType], None] | None:
    """Returns torch's function that marks code; None in torch before 2.0, which has no Dynamo."""
    frames: Any = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    if hasattr(frames, "set_code_exec_strategy"):  # torch 2.6
        action = frames._FrameAction.SKIP
        strategy = frames._FrameExecStrategy(action, action)  # of the function, and of all that it calls
        return lambda code: frames.set_code_exec_strategy(code, strategy)
    return getattr(frames, "skip_code", None)


def _codes_of(module: ModuleType) -> Iterator[CodeType]:
    for value in list(vars(module).values()):
        yield from _codes(value)
        if isinstance(value, type) and value.__module__ == module.__name__:
            for member in list(vars(value).values()):
                yield from _codes(member)


def _codes(value: Any) -> Iterator[CodeType]:
    if isinstance(value, property):
        for each in (value.fget, value.fset):
            yield from _codes(each)
    value = getattr(value, "__func__", value)  # of a static method or a class method
    if isinstance(value, FunctionType):
        yield from _with_nested(value.__code__)


def _with_nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _with_nested(each)
