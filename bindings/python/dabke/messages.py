"""Messages between two ranks: ``send`` and ``recv``, each in a blocking and an asynchronous form.

A send and a receive match if they have the same name, tag and process set, and if each names the other rank
as its peer. The n-th send matches the n-th receive, in whatever order other messages come. No other rank
takes part or waits. A send may wait until the other rank receives.

Tensors are those of the collectives (``dabke.allreduce``). A message's tensor must not be touched until the
message has arrived.
"""

from __future__ import annotations

from . import _core
from ._frontend.options import WORLD, AnySet, options_of
from .arrays import TensorLike
from .handles import Handle
from .process_sets import set_id_of

__all__ = ["ANY_RANK", "recv", "recv_async", "send", "send_async"]

ANY_RANK: int = _core.ANY_RANK
"""The peer of a receive from whichever rank sends."""

_NAME = "message"


def send_async(
    tensor: TensorLike, peer: int, name: str = _NAME, *, tag: int = 0, process_set: AnySet = WORLD
) -> Handle:
    """Starts ``send``, and returns a ``Handle`` at once.

    Arguments and errors are those of ``send``.
    """
    return _core.send(name, tensor, peer, options_of(set_id_of(process_set)).core, tag)


def send(
    tensor: TensorLike, peer: int, name: str = _NAME, *, tag: int = 0, process_set: AnySet = WORLD
) -> None:
    """Sends a tensor to another rank.

    Args:
        tensor: of any shape and dtype, the same on both ranks.
        peer: the world rank that receives.
        name: of the message, the same on both ranks; at most 4096 bytes in UTF-8.
        tag: only a send and a receive of one tag match.
        process_set: has both ranks, as a ``ProcessSet`` or its number.

    Raises:
        InvalidArgumentError: `peer` is this rank, or is not in the process set.
        MismatchError: shape or dtype differ; raised on both ranks.
        HorovodInternalError: the job has failed.
    """
    options = options_of(set_id_of(process_set)).core
    _core.send(name, tensor, peer, options, tag, wait_follows=True).wait()


def recv_async(
    tensor: TensorLike,
    peer: int = ANY_RANK,
    name: str = _NAME,
    *,
    tag: int = 0,
    process_set: AnySet = WORLD,
) -> Handle:
    """Starts ``recv``, and returns a ``Handle`` at once. Its ``sender()`` is the rank that has sent.

    Arguments and errors are those of ``recv``.
    """
    return _core.recv(name, tensor, peer, options_of(set_id_of(process_set)).core, tag)


def recv(
    tensor: TensorLike,
    peer: int = ANY_RANK,
    name: str = _NAME,
    *,
    tag: int = 0,
    process_set: AnySet = WORLD,
) -> int:
    """Receives a tensor from another rank, in its place.

    Args:
        tensor: writable, of the shape and dtype that are sent.
        peer: the world rank that sends. ``ANY_RANK``: the oldest message of any rank of the set that sends
            one. That costs a question to all ranks of the set.
        name: of the message, the same on both ranks; at most 4096 bytes in UTF-8.
        tag: only a send and a receive of one tag match.
        process_set: has both ranks, as a ``ProcessSet`` or its number.

    Returns:
        The world rank that has sent the message.

    Raises:
        The errors of ``send``.
    """
    options = options_of(set_id_of(process_set)).core
    handle = _core.recv(name, tensor, peer, options, tag, wait_follows=True)
    handle.wait()
    return handle.sender()
