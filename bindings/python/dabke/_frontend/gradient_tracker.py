"""The progress of an optimizer's gradients: which are complete, and which are being reduced.

1. Each backward pass that has added to a gradient is counted (`pass_done`). The last pass of a step makes the
   gradient complete.
2. A complete gradient is reduced at once. A member of a group is reduced when all members are complete
   (`complete`).
3. Before a step, `is_missing` returns the gradients whose reductions have not started, and `take_started`
   returns the reductions to wait for.

A parameter is an object of the framework, hashed by its identity. A reduction is an object of the frontend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

__all__ = ["GradientTracker"]

P = TypeVar("P")
R = TypeVar("R")


class GradientTracker(Generic[P, R]):
    """The progress of one optimizer's gradients. One thread at a time may call it."""

    def __init__(
        self, names: dict[P, str], groups: Sequence[Sequence[P]], passes: int, in_group: Callable[[P], bool]
    ) -> None:
        """`in_group` returns True if a member's gradient travels with its group at present."""
        self.parameters: list[P] = []
        self._names = names
        self._groups = groups
        self._group_of = {member: i for i, group in enumerate(groups) for member in group}
        self._in_group = in_group
        self._passes = passes
        self._passes_left: dict[P, int] = {}
        self._complete: list[set[P]] = [set() for _ in groups]  # members whose groups wait for other members
        self._started: dict[P, R] = {}

    def name_of(self, parameter: P) -> str:
        """Returns the parameter's name. A parameter that was added later than the others is numbered."""
        return self._names.setdefault(parameter, f"noname.{len(self._names)}")

    def add(self, parameter: P) -> None:
        """Counts the passes of one more parameter."""
        self.parameters.append(parameter)
        self._passes_left[parameter] = self._passes

    def set_passes(self, passes: int) -> None:
        """Sets the number of backward passes that complete a gradient, and restarts all counts."""
        self._passes = passes
        self.start_over()

    # ---- during the backward pass ----

    def pass_done(self, parameter: P) -> bool:
        """Counts a backward pass that has added to the gradient.

        Returns:
            True if the gradient is complete.

        Raises:
            AssertionError: the gradient was complete already.
        """
        if self._passes_left[parameter] <= 0:
            raise AssertionError(
                f"the gradient of '{self._names[parameter]}' was computed more than backward_passes_per_step "
                "times before step() or synchronize(); raise backward_passes_per_step to add up gradients of "
                "several passes"
            )
        self._passes_left[parameter] -= 1
        return self._passes_left[parameter] == 0

    def complete(self, parameter: P, alone: bool) -> list[P]:
        """Notes that a gradient can be reduced. With `alone` the caller reduces it by itself.

        Returns:
            the parameters whose gradients are to be reduced together now; empty if a group waits for other
            members.
        """
        group = self._group_of.get(parameter)
        if group is None:
            return [] if alone else [parameter]
        if not alone:
            self._complete[group].add(parameter)
        members = [each for each in self._groups[group] if self._in_group(each)]
        if not members or len(self._complete[group]) != len(members):
            return []
        self._complete[group].clear()
        return members

    def start(self, parameter: P, reduction: R) -> None:
        """Stores a reduction that has been started."""
        self._started[parameter] = reduction

    # ---- before a step ----

    @property
    def is_reducing(self) -> bool:
        """True if a reduction has been started, or waits for its group."""
        return bool(self._started) or any(self._complete)

    @property
    def is_untouched(self) -> bool:
        """True if no backward pass has added to a gradient since all gradients were reduced."""
        return not self.is_reducing and all(left == self._passes for left in self._passes_left.values())

    def is_missing(self, parameter: P) -> bool:
        """True if the gradient's reduction has not started, and its group will not start it."""
        if parameter in self._started:
            return False
        group = self._group_of.get(parameter)
        return group is None or parameter not in self._complete[group]

    def take_started(self) -> dict[P, R]:
        """Hands the started reductions to the caller, in the order of their start, and begins a new step."""
        started, self._started = self._started, {}
        self.start_over()
        return started

    def start_over(self) -> None:
        """Restarts the counts of passes for a new step, because the gradients are gone."""
        self._passes_left = dict.fromkeys(self._passes_left, self._passes)

    def forget(self) -> None:
        """Drops the gradients that wait for their groups."""
        for complete in self._complete:
            complete.clear()
