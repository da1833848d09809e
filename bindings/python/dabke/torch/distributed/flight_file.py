"""The file of the flight recorder: a pickle in the form of PyTorch's own, version 2.10.

``torchfrtrace`` accepts a fixed list of backends, so the names of calls begin with ``gloo:``. It compares the
calls of all members of a group that have the same ``collective_seq_id``. So that it can also compare
messages:

- Messages between two ranks belong to a group of these two. Its name is that of the group and of the ranks.
- The messages of a direction and tag have one id, which no collective has. The tool compares them in order.
- A message that is received from any rank, and has not come, belongs to a group of its receiver alone.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .flight_recorder import GroupFacts, Record

__all__ = ["dtype_name", "numel", "write"]

_VERSION = "2.10"
_PREFIX = "gloo:"
_FIRST_MESSAGE_ID = 1 << 32
_DEFAULT_TIMEOUT_MS = 30 * 60 * 1000

# The names of PyTorch's C++ where they are not the Python names with a capital letter.
_DTYPE_NAMES = {
    torch.float32: "Float",
    torch.float64: "Double",
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.int8: "Char",
    torch.uint8: "Byte",
    torch.int16: "Short",
    torch.int32: "Int",
    torch.int64: "Long",
    torch.complex64: "ComplexFloat",
    torch.complex128: "ComplexDouble",
}

# Calls whose lists of tensors PyTorch's tool expects as one tensor.
_STACKED_OUTPUTS, _STACKED_INPUTS = ("all_gather", "all_to_all"), ("reduce_scatter", "all_to_all")


def write(path: str, records: Iterable[Record], groups: Iterable[GroupFacts]) -> str:
    """Writes the file, whole or not at all, and returns its path."""
    config = {each.name: _config(each.name, each.desc, each.world_ranks) for each in groups}
    entries = [_entry(each, config) for each in records]
    content = {
        "version": _VERSION,
        "comm_lib_version": "",
        "pg_config": config,
        "pg_status": _status(entries),
        "entries": entries,
    }
    part = f"{path}.part"
    Path(part).write_bytes(pickle.dumps(content))
    os.replace(part, path)
    return path


def dtype_name(dtype: torch.dtype | None) -> str:
    return "" if dtype is None else _DTYPE_NAMES.get(dtype, str(dtype).split(".")[-1].capitalize())


def numel(shapes: Iterable[Any]) -> int:
    return sum(shape.numel() for shape in shapes)


def _config(name: str, desc: str, ranks: Iterable[int]) -> dict[str, str]:
    return {"name": name, "desc": desc, "ranks": str(list(ranks))}


def _status(entries: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    status: dict[str, dict[str, int]] = {}
    for entry in entries:
        if entry["is_p2p"]:
            continue
        of_group = status.setdefault(
            str(entry["pg_id"]),
            {f"last_{each}_collective": -1 for each in ("enqueued", "started", "completed")},
        )
        of_group["last_enqueued_collective"] = entry["collective_seq_id"]
        if entry["state"] == "completed":
            of_group["last_completed_collective"] = entry["collective_seq_id"]
    return status


def _entry(call: Record, config: dict[str, dict[str, str]]) -> dict[str, Any]:
    group, title, sequence = call.group.name, call.title, call.sequence
    if call.message is None:
        title, inputs, outputs = _sizes(call)
    else:
        group, title, sequence = _message(call, config)
        inputs = outputs = [[numel(call.inputs or call.outputs)]]  # the shapes of the two sides may differ
    dtype = dtype_name(call.dtype)
    limit = call.limit_seconds
    return {
        "record_id": call.number,
        "pg_id": call.group.number,
        "process_group": (group, call.group.desc),
        "collective_seq_id": sequence,
        "p2p_seq_id": 0 if call.message is None else _FIRST_MESSAGE_ID + call.sequence,
        "op_id": call.number + 1,
        "profiling_name": _PREFIX + title,
        "time_created_ns": call.created_ns,
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": call.completed_ns,
        "input_sizes": inputs,
        "input_dtypes": [dtype] * len(inputs),
        "output_sizes": outputs,
        "output_dtypes": [dtype] * len(outputs),
        "state": "scheduled" if call.completed_ns is None else "completed",
        "is_p2p": call.message is not None,
        "retired": call.handles is None,
        "timeout_ms": _DEFAULT_TIMEOUT_MS if limit is None else int(limit * 1000),
        "frames": [_frame(call.code, call.instruction)],
    }


def _sizes(call: Record) -> tuple[str, list[list[int]], list[list[int]]]:
    """Returns a collective's title, and the sizes of its inputs and outputs, as PyTorch records them.

    Where parts of different sizes make the call a "v" variant, the own part has no size: the tool would
    compare it with those of other ranks.
    """
    title = call.title
    inputs, outputs = ([list(shape) for shape in each] for each in (call.inputs, call.outputs))
    if title == "all_to_all":
        return title, _one(inputs), _one(outputs)
    if title in _STACKED_OUTPUTS:
        return (title, inputs, _one(outputs)) if _equal(outputs) else (f"{title}_v", [[]], outputs)
    if title in _STACKED_INPUTS:
        return (title, _one(inputs), outputs) if _equal(inputs) else (f"{title}_v", inputs, [[]])
    return title, inputs, outputs


def _equal(sizes: list[list[int]]) -> bool:
    return all(each == sizes[0] for each in sizes)


def _one(sizes: list[list[int]]) -> list[list[int]]:
    """Returns the size of the tensor that has all these as its rows."""
    if len(sizes) < 2:
        return sizes
    if _equal(sizes):
        return [[len(sizes), *sizes[0]]]
    return [[sum(torch.Size(each).numel() for each in sizes)]]


def _message(call: Record, config: dict[str, dict[str, str]]) -> tuple[str, str, int]:
    """Returns the group, the title and the id of a message."""
    assert call.message is not None
    group, (peer, tag) = call.group, call.message
    own = group.world_ranks[group.rank]
    other = call.sender if peer is None else group.world_ranks[peer]
    if other is None:
        name = f"{group.name}/messages from any rank to {own}"
        config[name] = _config(name, group.desc, [own])
        return name, "recv 0<--1", _FIRST_MESSAGE_ID
    pair = sorted([own, other])
    name = group.name
    if len(group.world_ranks) > 2:
        name = f"{group.name}/messages {pair[0]}-{pair[1]}"
        config[name] = _config(name, group.desc, pair)
    here, there = pair.index(own), pair.index(other)
    sender = here if call.title == "send" else there
    title = f"send {here}->{there}" if call.title == "send" else f"recv {here}<-{there}"
    return name, title, _FIRST_MESSAGE_ID + 2 * tag + sender


def _frame(code: Any, instruction: int) -> dict[str, Any]:
    return {"name": code.co_name, "filename": code.co_filename, "line": _line(code, instruction)}


def _line(code: Any, instruction: int) -> int:
    import dis

    line = code.co_firstlineno
    for start, number in dis.findlinestarts(code):
        if start > instruction:
            break
        if number is not None:
            line = number
    return int(line)
