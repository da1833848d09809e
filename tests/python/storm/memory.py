"""Tensors of random layouts in memory with guard values, and the comparison of all of this memory.

A tensor is strided, permuted, expanded, negative, conjugate or compact in a larger piece of memory. After a
call, every byte of the memory is compared: results, inputs, and the gaps between them.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from dtypes import DTYPES, conjugated, decode, negated


@dataclass(eq=False)
class Near:
    """Expected numbers, and how far a result may be from each."""

    numbers: np.ndarray
    bound: np.ndarray

    def count(self):
        return self.numbers.size

    def wrong(self, actual):
        """Returns which elements differ."""
        wanted = self.numbers.reshape(-1)
        with np.errstate(invalid="ignore", over="ignore"):
            is_near = (np.abs(actual - wanted) <= self.bound.reshape(-1)) | (actual == wanted)
        return ~(is_near | (np.isnan(actual) & np.isnan(wanted)))


ANYTHING = "anything"  # a result that nothing is known about


@dataclass(eq=False)
class Slot:
    """A tensor of a call. `before` are its rows, None: random ones. `after` are the expected rows or numbers;
    None: the call must leave it as it is."""

    shape: tuple
    before: np.ndarray | None = None
    after: object = None
    part_of: "tuple[Slot, int] | None" = None  # this slot is the part of another one, by its place in it

    def count(self):
        return math.prod(self.shape)


@dataclass
class Layout:
    shape: tuple
    strides: tuple  # in elements
    offset: int
    flag: str = ""  # neg: the memory has the negative numbers; conj: the conjugate ones
    is_leaf: bool = False  # of autograd

    def indices(self):
        """Returns the place in memory of each element."""
        found = np.full((), self.offset, dtype=np.int64)
        for size, stride in zip(self.shape, self.strides):
            found = found[..., None] + np.arange(size) * stride
        return found.reshape(-1)

    def end(self):
        indices = self.indices()
        return int(indices.max()) + 1 if indices.size else self.offset

    def part(self, place, shape):
        """Returns the layout of the part at this place. Parts lie one after the other in the first
        dimension, or each is one row."""
        if len(shape) == len(self.shape):
            first = place * shape[0]
            return Layout(shape, self.strides, self.offset + first * self.strides[0], self.flag)
        return Layout(shape, self.strides[1:], self.offset + place * self.strides[0], self.flag)

    def text(self):
        words = f"shape {self.shape} strides {self.strides} offset {self.offset} {self.flag}".strip()
        return words + (" of autograd" if self.is_leaf else "")


class Memory:
    """Memory of one dtype with one or more tensors."""

    def __init__(self, random, dtype, slots, layouts):
        self.dtype, self.slots, self.layouts = DTYPES[dtype], slots, layouts
        length = max([layout.end() for layout in layouts], default=0) + random.integers(0, 4)
        rows = random.integers(0, 2 if dtype == "bool" else 256, (length, self.dtype.size), dtype=np.uint8)
        self.rows = np.ascontiguousarray(rows)
        for slot, layout in zip(slots, layouts):
            if slot.before is not None:
                self.rows[layout.indices()] = self.stored(slot.before, layout)
        self.wanted = self.rows.copy()
        flat = torch.from_numpy(self.rows.reshape(-1))
        base = flat.view(getattr(torch, dtype))
        self.tensors = [self.view(base, layout) for layout in layouts]

    def stored(self, rows, layout):
        change = {"neg": negated, "conj": conjugated}.get(layout.flag)
        return rows if change is None else change(self.dtype.name, rows)

    @staticmethod
    def view(base, layout):
        tensor = torch.as_strided(base, layout.shape, layout.strides, layout.offset)
        if layout.is_leaf:
            return tensor.requires_grad_()
        if layout.flag == "neg":
            return torch._neg_view(tensor)
        return tensor.conj() if layout.flag == "conj" else tensor

    def differences(self, rows=None):
        """Returns texts of what differs from the expected memory. `rows` is an earlier copy of the memory."""
        rows, wanted = self.rows if rows is None else rows, self.wanted.copy()
        found = []
        for number, (slot, layout) in enumerate(zip(self.slots, self.layouts)):
            if slot.after is None:
                continue
            places = layout.indices()
            if isinstance(slot.after, Near):
                actual = decode(self.dtype.name, self.stored(rows[places], layout))
                found += differing(f"tensor {number} ({layout.text()})", slot.after, actual)
                wanted[places] = rows[places]
            elif isinstance(slot.after, np.ndarray):
                wanted[places] = self.stored(slot.after, layout)
            else:
                wanted[places] = rows[places]
        places = np.flatnonzero((rows != wanted).any(axis=1))
        if places.size:
            found.append(self.text(places, rows, wanted))
        return found

    def text(self, places, rows, wanted):
        place = int(places[0])
        where = "a gap between tensors"
        for number, layout in enumerate(self.layouts):
            inside = np.flatnonzero(layout.indices() == place)
            if inside.size:
                where = f"element {int(inside[0])} of tensor {number} ({layout.text()})"
                break
        if self.dtype.kind == "x":
            shown = [each[place].tobytes().hex() for each in (rows, wanted)]
        else:
            shown = [decode(self.dtype.name, each[place : place + 1])[0] for each in (rows, wanted)]
        return (
            f"{places.size} of {len(rows)} elements of the memory differ, first {where}: "
            f"got {shown[0]}, expected {shown[1]}"
        )


def differing(what, near, actual):
    places = np.flatnonzero(near.wrong(actual))
    if not places.size:
        return []
    first = places[0]
    return [
        f"{what}: {places.size} of {actual.size} elements differ, first element {first}: "
        f"got {actual[first]}, expected {near.numbers.reshape(-1)[first]} "
        f"within {near.bound.reshape(-1)[first]}"
    ]


# ---- random layouts ----


def place(random, dtype, slots, forms):
    """Returns memories with these tensors: each in its own, or all one after the other in one.

    `forms` are the forms that they may have besides compact: strided, neg, conj, leaf.
    """
    whole = [slot for slot in slots if slot.part_of is None]
    one = len(whole) > 1 and random.random() < 0.5
    groups = [whole] if one else [[each] for each in whole]
    memories = []
    for group in groups:
        parts = [each for each in slots if each.part_of is not None and each.part_of[0] in group]
        if one:
            layouts = neighbours(random, group)
        else:
            can_spread = group[0].after is None and all(each.after is None for each in parts)
            possible = tuple(each for each in forms if each != "leaf" or not parts)
            layouts = [layout_of(random, dtype, group[0], possible, can_spread)]
        for each in parts:
            layouts.append(layouts[group.index(each.part_of[0])].part(each.part_of[1], each.shape))
        memories.append(Memory(random, dtype, group + parts, layouts))
    return memories


def neighbours(random, slots):
    """Returns compact layouts that follow each other, mostly in order, sometimes with gaps."""
    order = list(range(len(slots)))
    if random.random() < 0.3:
        random.shuffle(order)
    has_gaps = random.random() < 0.3
    found, at = {}, int(random.integers(0, 4))
    for number in order:
        shape = slots[number].shape
        found[number] = Layout(shape, compact(shape), at)
        at += math.prod(shape) + (int(random.integers(0, 3)) if has_gaps else 0)
    return [found[number] for number in range(len(slots))]


def layout_of(random, dtype, slot, forms, can_spread):
    shape, offset = slot.shape, int(random.integers(0, 4))
    strides = compact(shape)
    if not forms:
        return Layout(shape, strides, offset)
    kind = random.choice(["compact", "sliced", "permuted", "channels_last"], p=[0.4, 0.25, 0.25, 0.1])
    order = list(range(len(shape)))
    if kind == "channels_last" and len(shape) == 4:
        order = [0, 2, 3, 1]
    elif kind == "permuted":
        random.shuffle(order)
    strides = in_order(shape, order, lambda: int(random.integers(1, 4)) if kind == "sliced" else 1)
    if can_spread and is_spread(slot) and random.random() < 0.7:
        strides = (0, *strides[1:])
    if random.random() < 0.3:  # the stride of one element has no meaning
        strides = tuple(
            int(random.integers(1, 9)) if size == 1 else stride for size, stride in zip(shape, strides)
        )
    flag = flag_of(random, dtype, slot, forms)
    is_leaf = "leaf" in forms and flag == "" and DTYPES[dtype].is_inexact and random.random() < 0.1
    return Layout(shape, strides, offset, flag, is_leaf)


def flag_of(random, dtype, slot, forms):
    """Numbers are negated, and bits are not: PyTorch may change the bits of a NaN."""
    known = DTYPES[dtype]
    if slot.after is ANYTHING and known.is_inexact:
        return ""  # any bits may come
    rows = [each for each in (slot.before, slot.after) if isinstance(each, np.ndarray)]
    numbers = [decode(dtype, each) for each in rows] if known.is_inexact else []
    if any(np.isnan(each).any() for each in numbers):
        return ""
    if known.kind == "c" and "conj" in forms and random.random() < 0.2:
        return "conj"
    if known.kind == "c" and any((each.real == 0).any() or (each.imag == 0).any() for each in numbers):
        return ""  # PyTorch may drop the sign of a zero of a complex number
    return "neg" if known.can_negate and random.random() < 0.1 else ""


def is_spread(slot):
    """True if all rows of the first dimension are equal, so that one can stand for all."""
    if slot.before is None or not slot.shape or slot.shape[0] < 2:
        return False
    rows = slot.before.reshape(slot.shape[0], -1)
    return bool((rows == rows[0]).all())


def compact(shape):
    return in_order(shape, range(len(shape)), lambda: 1)


def in_order(shape, order, gap):
    """Returns strides of dimensions in this order, the last one the innermost."""
    strides, step = [0] * len(shape), 1
    for dimension in reversed(order):
        step *= gap()
        strides[dimension] = step
        step *= max(1, shape[dimension])
    return tuple(strides)
