"""The compiled handlers of the collectives, registered with XLA before the first program is lowered."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import jax

from ..errors import NotBuiltError, UnsupportedError

__all__ = ["api_version", "load", "target_of"]

_MODULE = Path(__file__).parent / "dabke_jax.so"
_COLLECTIVES = ("allreduce", "allgather", "broadcast", "alltoall", "reducescatter")
_OLDEST = (0, 1)


def target_of(collective: str) -> str:
    """The name by which XLA finds the handler of a collective."""
    return f"dabke_jax_{collective}"


@functools.cache
def load() -> ctypes.CDLL:
    """Loads the handlers and registers them with XLA. It initialises no device.

    Raises:
        NotBuiltError: the compiled module is not there.
        UnsupportedError: XLA's FFI has a version that the handlers do not know.
    """
    try:
        module = ctypes.CDLL(str(_MODULE))
    except OSError as error:
        raise NotBuiltError(f"dabke.jax: its compiled part cannot be loaded: {error}") from error
    for collective in _COLLECTIVES:
        target = target_of(collective)
        capsule = jax.ffi.pycapsule(getattr(module, target))  # type: ignore[no-untyped-call,unused-ignore]
        jax.ffi.register_ffi_target(target, capsule, platform="cpu")
    version = _version_of(module)
    if version is not None and (version[0] != _OLDEST[0] or version < _OLDEST):
        raise UnsupportedError(
            f"dabke.jax: the FFI of JAX {jax.__version__} has version {version[0]}.{version[1]}; version "
            f"{_OLDEST[0]}.{_OLDEST[1]} or a later {_OLDEST[0]}.x is needed; install jaxlib 0.5.0 or newer"
        )
    return module


def _version_of(module: ctypes.CDLL) -> tuple[int, int] | None:
    number = module.dabke_jax_api_version()
    return None if number < 0 else (number // 1000, number % 1000)


def api_version() -> tuple[int, int] | None:
    """The version of XLA's FFI that the framework names, as (major, minor). Errors are those of ``load``.

    None before it has named one: jaxlib 0.5 does with the first collective of a program that runs, later ones
    at once.
    """
    return _version_of(load())
