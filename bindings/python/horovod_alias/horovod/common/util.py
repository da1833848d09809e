"""Small functions that programs use."""

from __future__ import annotations

import importlib.util
from typing import Any, TypeVar

T = TypeVar("T")


def num_rank_is_power_2(num_rank: int) -> bool:
    """Returns True if the number is 1, 2, 4, ..."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def gpu_available(ext_base_name: Any = None, verbose: bool = False) -> bool:
    """Returns True if PyTorch, or TensorFlow where PyTorch is not installed, sees a GPU."""
    if importlib.util.find_spec("torch") is not None:
        import torch

        return torch.cuda.is_available()
    import tensorflow

    return bool(tensorflow.config.list_physical_devices("GPU"))


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Returns True if Dabke has a binding for the framework, and the framework is installed."""
    name = ext_base_name.rpartition(".")[2]
    return name in ("keras", "tensorflow", "torch") and importlib.util.find_spec(name) is not None


def check_installed_version(name: str, version: str, exception: BaseException | None = None) -> None:
    """Does nothing: one build works with every version of the framework."""


def split_list(elements: list[T], parts: int) -> list[list[T]]:
    """Returns consecutive parts. Their lengths differ by at most one; the longer parts come first."""
    length, longer = divmod(len(elements), parts)
    cuts = [i * length + min(i, longer) for i in range(parts + 1)]
    return [elements[first:last] for first, last in zip(cuts, cuts[1:])]
