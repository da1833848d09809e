"""The parameters of a group's call in a trace of PyTorch's profiler, with the keys that NCCL's calls have.

NCCL's event is named ``record_param_comms``. A process crashes in PyTorch's profiler when Python writes an
event of that name, so this one has another. It follows the submission of the call. The parameters need
``record_shapes=True`` and PyTorch 2.4; without these, nothing is written.
"""

from __future__ import annotations

from typing import Any

import torch

from .flight_file import dtype_name, numel
from .flight_recorder import GroupFacts

__all__ = ["EVENT", "record"]

# The timeline's report takes it neither for communication nor for computation.
EVENT = "c10d::dabke_param_comms"


def _range_class() -> Any:
    """Returns torch's range with named values; None before torch 2.4."""
    made = getattr(getattr(torch._C, "_profiler", None), "_RecordFunctionFast", None)
    try:
        return made and made(EVENT, [], {}) and made
    except TypeError:
        return None


_Range = _range_class()

# NCCL's names of calls in its events, where they differ from those of the flight recorder.
_NAMES = {"all_reduce": "allreduce", "all_gather": "allgather", "_all_gather_base": "_allgather_base"}


def record(
    facts: GroupFacts,
    title: str,
    sequence: int,
    inputs: tuple[Any, ...],
    outputs: tuple[Any, ...],
    dtype: torch.dtype | None,
    message: tuple[int | None, int] | None,
) -> None:
    """Writes the event. Called while the profiler records, after the call was submitted."""
    if _Range is None:
        return
    item_bytes = 0 if dtype is None else torch.empty(0, dtype=dtype).element_size()
    values = {
        "Collective name": _NAMES.get(title, title),
        "dtype": dtype_name(dtype),
        "In msg nelems": numel(inputs),
        "Out msg nelems": numel(outputs),
        "In msg bytes": numel(inputs) * item_bytes,
        "Out msg bytes": numel(outputs) * item_bytes,
        "Group size": len(facts.world_ranks),
        "Process Group Name": _plain(facts.name),
        "Process Group Description": _plain(facts.desc),
        "Process Group Ranks": str(facts.world_ranks),
        "Rank": facts.rank,
        "Seq": sequence,
    }
    if message is not None and message[0] is not None:
        values.update({"Dst Rank" if title == "send" else "Src Rank": message[0]})
    with _Range(EVENT, [], values):
        pass


def _plain(text: str) -> str:
    """Returns the text without what would end a string of the trace."""
    return text.replace("\\", "/").replace('"', "'")
