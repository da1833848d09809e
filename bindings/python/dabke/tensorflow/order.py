"""The order of submits and waits in a graph, so that a pool of one thread cannot deadlock.

A wait keeps its thread until all ranks have submitted. Another rank may submit in another order, and so every
wait of a graph comes after all of its submits that do not depend on the wait.

1. Submits that depend on no wait are control inputs of one op, the gate, which all waits come after.
2. A submit that depends on some waits becomes a control input of all others.
3. What depends on what is found out in the order in which ops were made. TensorFlow will order ops that use
   one resource, and stateful ones without a resource, when the function ends; these dependences count
   already.

An edge that would close a circle is never made: a submit becomes no input of a wait on which it depends.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]

__all__ = ["note_submit", "note_wait", "run_independently"]

_ATTRIBUTE = "_dabke_order"


def run_independently(op: Any) -> None:
    """Frees an op from the order of stateful ops, in which TensorFlow would run one collective after the
    other."""
    manager = getattr(op.graph, "experimental_acd_manager", None)
    if manager is not None:
        manager.run_independently(op)


class _Order:
    """The waits of a graph, numbered; sets of them are the bits of integers."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._waits: list[Any] = []
        self._behind: dict[str, int] = {}  # by op: the waits on which it depends by edges of its own
        self._by_resource: dict[int, int] = {}
        self._by_state = 0  # of the chain of stateful ops without a resource
        self._seen = 0
        self._before_wait: list[int] = []  # by wait: those on which it depends by edges that were made later
        self._gate: Any = None

    def _follow(self) -> None:
        """Learns of ops that have come since the last call."""
        operations = self._graph.get_operations()
        for op in operations[self._seen :]:
            self._behind[op.name] = self._waits_behind(op)
        self._seen = len(operations)

    def _waits_behind(self, op: Any) -> int:
        waits = 0
        for tensor in op.inputs:
            waits |= self._behind.get(tensor.op.name, 0)
        for other in op.control_inputs:
            waits |= self._behind.get(other.name, 0)
        resources = [id(tensor) for tensor in op.inputs if tensor.dtype == tf.resource]
        for resource in resources:
            waits |= self._by_resource.get(resource, 0)
        for resource in resources:
            self._by_resource[resource] = waits
        if not resources and op.op_def is not None and op.op_def.is_stateful:
            if not op.type.startswith("Dabke"):
                waits |= self._by_state
                self._by_state = waits
        return waits

    def _all_behind(self, waits: int) -> int:
        """`waits` with all on which they depend."""
        found, new = 0, waits
        while new:
            lowest = new & -new
            found |= lowest
            new = (new | self._before_wait[lowest.bit_length() - 1]) & ~found
        return found

    def submit(self, op: Any) -> None:
        """Puts a new submit before all waits that it does not depend on."""
        self._follow()
        behind = self._all_behind(self._behind[op.name])
        if not behind:
            self._open_gate()._add_control_input(op)
            return
        for number, wait in enumerate(self._waits):
            if not behind >> number & 1:
                wait._add_control_input(op)
                self._before_wait[number] |= behind

    def wait(self, op: Any) -> None:
        """Numbers a new wait, and puts it behind the gate."""
        self._follow()
        number = len(self._waits)
        self._waits.append(op)
        self._before_wait.append(self._behind[op.name])
        self._behind[op.name] |= 1 << number
        op._add_control_input(self._open_gate())

    def _open_gate(self) -> Any:
        if self._gate is None:
            with self._graph.as_default(), self._graph.control_dependencies(None):
                self._gate = tf.no_op(name="dabke_gate")
        return self._gate


def _order_of(graph: Any) -> _Order:
    order = getattr(graph, _ATTRIBUTE, None)
    if order is None:
        order = _Order(graph)
        setattr(graph, _ATTRIBUTE, order)
    return order


def note_submit(op: Any) -> None:
    """Orders an op that submits, which has just been made."""
    run_independently(op)
    _order_of(op.graph).submit(op)


def note_wait(op: Any) -> None:
    """Orders an op that waits, which has just been made."""
    run_independently(op)
    _order_of(op.graph).wait(op)
