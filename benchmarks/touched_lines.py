"""Counts what instructions touch, from steps and address spaces, which lines_of_a_call.py makes."""

import bisect
import collections
import os
import re

LINE, PAGE = 64, 4096


class Touch(collections.namedtuple("Touch", "address size writes")):
    """One access to memory."""

    def lines(self):
        return range(self.address // LINE, (self.address + max(self.size, 1) - 1) // LINE + 1)


# One instruction: its address, its own bytes, the memory that it touches, and its system call, if any.
Step = collections.namedtuple("Step", "rank ip size touches call", defaults=(None,))


class Mapping(collections.namedtuple("Mapping", "begin end is_shared inode offset path")):
    """A row of /proc/PID/maps. The zeroed data of a library has the library's path."""


def parse_maps(text):
    mappings = []
    for row in text.splitlines():
        span, mode, offset, _, inode, *path = row.split(None, 5)
        begin, end = (int(one, 16) for one in span.split("-"))
        path = path[0] if path else ""
        before = mappings[-1] if mappings else None
        if not path and before and before.end == begin and ".so" in before.path:
            path = before.path  # its .bss
        mappings.append(Mapping(begin, end, mode[3] == "s", int(inode), int(offset, 16), path))
    return mappings


class Space:
    """The address space of one rank."""

    def __init__(self, mappings, stack_pointer=0, thread_pointer=0):
        self.mappings, self.begins = mappings, [one.begin for one in mappings]
        self.stack, self.thread = self.find(stack_pointer), thread_pointer

    def find(self, address):
        index = bisect.bisect_right(self.begins, address) - 1
        found = self.mappings[index] if index >= 0 else None
        return found if found and address < found.end else None

    def class_of(self, address):
        mapping = self.find(address)
        name = os.path.basename(mapping.path) if mapping else ""
        if mapping is None or mapping == self.stack or name == "[stack]":
            return "stack"
        if abs(address - self.thread) < PAGE:
            return "thread"
        if mapping.is_shared:
            return "shared segment"
        if name.startswith("libdabke"):
            return "libdabke"
        if name in ("[vvar]", "[vdso]"):
            return "kernel's clock"
        if ".so" in name:
            return "other libraries"
        return "heap" if not name or name.startswith("[") else "program"

    def key(self, line):
        """Returns the name of the line, which is the same in every rank that shares
        it; None if only this rank has it."""
        mapping = self.find(line * LINE)
        if mapping is None or not mapping.is_shared:
            return None
        return mapping.path, mapping.inode, mapping.offset + line * LINE - mapping.begin


class Sum:
    """The sum over the steps of one rank: over all of them, or over those of one function."""

    def __init__(self):
        self.instructions, self.code, self.calls = 0, {}, collections.Counter()
        self.data = {}  # line: whether it was written, in the order of first touch

    def add(self, step):
        self.instructions += 1
        for line in Touch(step.ip, step.size, False).lines():
            self.code[line] = True
        for touch in step.touches:
            for line in touch.lines():
                self.data[line] = self.data.get(line, False) or touch.writes
        if step.call is not None:
            self.calls[step.call] += 1

    def by_class(self, space):
        """Returns {class: (lines, written lines, pages)}."""
        lines = {}
        for line in self.data:
            lines.setdefault(space.class_of(line * LINE), []).append(line)
        return {
            name: (len(some), sum(self.data[one] for one in some), pages(some))
            for name, some in lines.items()
        }


def pages(lines):
    return len({line * LINE // PAGE for line in lines})


def sum_by(steps, name_of):
    """Returns {name: Sum}, in the order of first appearance."""
    sums = collections.defaultdict(Sum)
    for step in steps:
        sums[name_of(step)].add(step)
    return sums


PRODUCT_FILE = re.compile(r"(?:^|/)((?:runtime|ops|bindings/c)/[^:]+)\.(cc|h)$")


class Sources(dict):
    """{source file without its ending: [instructions of its .cc, instructions of its .h]}.

    The order is that of first appearance. Inlined code counts for the file that has its source. Code that
    is not the product's counts nowhere.
    """

    def add(self, path):
        found = PRODUCT_FILE.search(os.path.normpath(path))
        if found:
            self.setdefault(found[1], [0, 0])[found[2] == "h"] += 1

    def with_code(self):
        """Returns the files whose .cc runs. Of the other files, only lines of
        a header are compiled into these."""
        return [name for name, (own, _) in self.items() if own]


class HandOvers:
    """The shared lines that pass from rank to rank.

    A line is with the ranks that have read it since its last write.
    """

    def __init__(self):
        self.holders = {}  # key of the line: ranks
        self.reads, self.writes = collections.Counter(), collections.Counter()

    def add(self, step, space):
        for touch in step.touches:
            for line in touch.lines():
                key = space.key(line)
                if key is None:
                    continue
                holders = self.holders.setdefault(key, {step.rank})
                if touch.writes:
                    if holders != {step.rank}:
                        self.writes[key] += 1
                    self.holders[key] = {step.rank}
                elif step.rank not in holders:
                    self.reads[key] += 1
                    holders.add(step.rank)
