"""The names of tensors that the program has not named.

In eager mode calls are counted, as in all of Dabke. In a graph the calls of the function that is being traced
are counted, and its name comes first. So names are the same on all ranks, in whatever order they trace their
functions.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]

from .._frontend.names import prefixed_name

__all__ = ["full_name", "group_names", "in_this_graph"]

_COUNTER = re.compile(r"(_\d+)+$")  # TensorFlow's own, which differs by rank
_ATTRIBUTE = "_dabke_counts"


def _counts_of(graph: Any) -> defaultdict[str, int]:
    counts = getattr(graph, _ATTRIBUTE, None)
    if counts is None:
        counts = defaultdict(int)
        setattr(graph, _ATTRIBUTE, counts)
    return counts


def _path_of(graph: Any) -> str:
    """The names of the functions that are being traced, the outermost first."""
    names: list[str] = []
    while graph is not None:
        names.append(_COUNTER.sub("", getattr(graph, "name", "graph")))
        graph = getattr(graph, "outer_graph", None)
        if graph is not None and not getattr(graph, "building_function", False):
            break
    return ".".join(reversed(names))


def in_this_graph(what: str) -> str | None:
    """``<function>.<what>.<n>``, n counting the `what` of the function that is being traced; None in eager
    mode."""
    if tf.executing_eagerly():
        return None
    graph = tf.compat.v1.get_default_graph()
    counts = _counts_of(graph)
    number = counts[what]
    counts[what] += 1
    return f"{_path_of(graph)}.{what}.{number}"


def full_name(collective: str, name: str | None, process_set: int) -> str:
    """``<collective>.<name>``, or the name of an unnamed tensor."""
    if not name:
        name = in_this_graph("noname")
    return prefixed_name(collective, name, process_set)


def group_names(collective: str, name: str | None, process_set: int, count: int) -> list[str]:
    """``<collective>.<name>_<i>of<count>`` for each of `count` members, i from 1."""
    group = full_name(collective, name, process_set)
    return [f"{group}_{i}of{count}" for i in range(1, count + 1)]
