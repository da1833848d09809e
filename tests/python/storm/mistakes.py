"""Mistakes that are planted after a call, for the test of the judge."""

import os

import numpy as np

NAME = os.environ.get("STORM_MISTAKE", "")
NAMES = ("value", "gap", "input", "skip")


class Mistake:
    """A mistake of the last member of a group, if the environment names one.

    value: one byte of a result differs; gap: one byte between tensors; input: one byte of an input;
    skip: the rank does not make the call.
    """

    def __init__(self, step, rank):
        self.is_here = len(step.members) > 1 and rank == max(step.members)

    def skips(self):
        return self.is_here and NAME == "skip"

    def plant(self, memories):
        if not self.is_here or NAME in ("", "skip"):
            return
        for each in memories:
            inside = np.zeros(len(each.rows), bool)
            for slot, layout in zip(each.slots, each.layouts):
                is_result = isinstance(slot.after, np.ndarray) or hasattr(slot.after, "numbers")
                if is_result == (NAME == "value") or NAME == "gap":
                    inside[layout.indices()] = True
            places = np.flatnonzero(~inside if NAME == "gap" else inside)
            if places.size:
                each.rows[places[0], -1] ^= 1 if each.dtype.kind == "b" else 0x55
                return
