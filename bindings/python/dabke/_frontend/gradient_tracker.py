"""The progress of an optimizer's gradients: which are complete, and which are being reduced.

1. Each backward pass that has added to a gradient is counted (`pass_done`); the last one of a step makes it complete.
2. A complete gradient is reduced at once, or, as a member of a group, when all members are there (`complete`).
3. Before a step, `is_missing` says whose reduction nothing has started, and `take_started` what there is to
   wait for.

A parameter is whatever the framework has, hashed by its identity; a reduction is whatever its frontend keeps of one.
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
        """`in_group` says whether a member's gradient travels with its group at present, and not by itself."""
        self.parameters: list[P] = []
        self._names = names
        self._groups = groups
        self._group_of = {member: i for i, group in enumerate(groups) for member in group}
        self._in_group = in_group
        self._passes = passes
        self._passes_left: dict[P, int] = {}
        self._complete: list[set[P]] = [set() for _ in groups]  # whose groups wait for other members
        self._started: dict[P, R] = {}

    def name_of(self, parameter: P) -> str:
        """Its name; a parameter that came later than the others is numbered."""
        return self._names.setdefault(parameter, f"noname.{len(self._names)}")

    def add(self, parameter: P) -> None:
        """Counts the passes of one more parameter."""
        self.parameters.append(parameter)
        self._passes_left[parameter] = self._passes

    def set_passes(self, passes: int) -> None:
        """How many backward passes add to a gradient before it is complete; all counts start over."""
        self._passes = passes
        self.start_over()

    # ---- during the backward pass ----

    def pass_done(self, parameter: P) -> bool:
        """Counts a backward pass that has added to the gradient.

        Returns:
            whether the gradient is complete.

        Raises:
            AssertionError: it was complete already.
        """
        if self._passes_left[parameter] <= 0:
            raise AssertionError(
                f"the gradient of '{self._names[parameter]}' was computed more than backward_passes_per_step times before "
                "step() or synchronize(); raise backward_passes_per_step to add up gradients of several passes"
            )
        self._passes_left[parameter] -= 1
        return self._passes_left[parameter] == 0

    def complete(self, parameter: P, alone: bool) -> list[P]:
        """Notes that a gradient can be reduced; `alone`: it is reduced by itself, whatever its group.

        Returns:
            the parameters whose gradients are to be reduced together now; empty where a group waits for other members.
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
        """Keeps a reduction that has been started."""
        self._started[parameter] = reduction

    # ---- before a step ----

    @property
    def is_reducing(self) -> bool:
        """Whether a reduction has been started, or waits for its group."""
        return bool(self._started) or any(self._complete)

    @property
    def is_untouched(self) -> bool:
        """Whether no backward pass has added to a gradient since all were reduced."""
        return not self.is_reducing and all(left == self._passes for left in self._passes_left.values())

    def is_missing(self, parameter: P) -> bool:
        """Whether nothing has started its reduction, nor will the last member of its group."""
        if parameter in self._started:
            return False
        group = self._group_of.get(parameter)
        return group is None or parameter not in self._complete[group]

    def take_started(self) -> dict[P, R]:
        """The reductions that have been started, in their order; they are the caller's, and a new step begins."""
        started, self._started = self._started, {}
        self.start_over()
        return started

    def start_over(self) -> None:
        """Counts the passes of a new step: the gradients are gone."""
        self._passes_left = dict.fromkeys(self._passes_left, self._passes)

    def forget(self) -> None:
        """Drops what waits for its group."""
        for complete in self._complete:
            complete.clear()
