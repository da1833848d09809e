"""The tensors of each call before and after it, computed with NumPy alone."""

import math

import numpy as np
from dtypes import DTYPES, decode, encode, rounded, rows_of
from memory import ANYTHING, Near, Slot


class Case:
    """The tensors of one member in a step, by the role that they have in the call."""

    def __init__(self, **slots):
        self.slots = slots  # a role: a list of slots
        self.returned = []  # for calls that return new tensors: (shape, rows or Near)

    def returns(self, *pairs):
        self.returned = list(pairs)
        return self


class Oracle:
    def __init__(self, seed, backend):
        self.seed = seed
        # Gloo leaves partial sums in the tensors of ranks that are not the root, and rounds each of them.
        self.has_defined_reduce = self.rounds_once = backend == "dabke"

    def case(self, step, me):
        """Returns the Case of this member, a group rank."""
        return getattr(self, "_" + step.kind)(step, me)

    # ---- values ----

    def random(self, step, *keys):
        return np.random.default_rng([self.seed, step.number, *keys])

    def rows(self, step, shape, *keys):
        """Returns random rows for a tensor that some rank has. Numbers are small, so that sums are exact."""
        random = self.random(step, *keys)
        count, dtype = math.prod(shape), DTYPES[step.dtype]
        if step.values == "bits":
            has_bits = dtype.kind in "xb" or random.random() < 0.5
        else:
            has_bits = step.values == "wide"
        if has_bits:
            most = 2 if dtype.kind == "b" else 256
            rows = random.integers(0, most, (count, dtype.size), dtype=np.uint8)
        else:
            rows = encode(step.dtype, self.numbers(step, random, count))
        if len(shape) > 0 and shape[0] > 1 and count and random.random() < 0.15:
            rows = np.tile(rows[: count // shape[0]], (shape[0], 1))
        return rows

    def numbers(self, step, random, count):
        kind = DTYPES[step.dtype].kind
        if kind == "b":
            return random.integers(0, 2, count)
        if step.values == "rough":
            numbers = random.uniform(-2, 2, count)
            if kind == "c":
                numbers = numbers + 1j * random.uniform(-2, 2, count)
            return rounded(step.dtype, numbers)
        most, unit = (3, 2) if step.op == "PRODUCT" else (8, 4)
        low = 0 if kind == "u" else -most
        numbers = random.integers(low, most + 1, count)
        if kind in "fc":
            numbers = numbers / unit
        if kind == "c":
            numbers = numbers + 1j * random.integers(low, most + 1, count) / unit
        return numbers

    # ---- reductions ----

    def reduced(self, step, parts):
        """Returns the reduction of these rows, one array for each member: rows, or numbers with bounds."""
        dtype = DTYPES[step.dtype]
        numbers = [decode(step.dtype, each) for each in parts]
        if dtype.kind == "b":
            return rows_of(_reduced_bools(step.op, numbers))
        if dtype.kind in "iu":
            return rows_of(_reduced_integers(step, numbers))
        result = _reduced_reals(step, numbers)
        if step.values == "exact":
            return Near(result, np.zeros(result.shape))
        sizes = [np.abs(each) for each in numbers]
        return Near(
            result,
            self.bound(step, result, math.prod(sizes) if step.op == "PRODUCT" else sum(sizes)),
        )

    def bound(self, step, result, size):
        """Returns how far a result may be, whose terms or factors have this size in total.

        Over Dabke, numbers of 16 bits are computed as float32, and rounded once.
        """
        digits, roundings = DTYPES[step.dtype].digits, len(step.members) + 2
        if digits < 24 and self.rounds_once:
            return np.abs(result) * 2.0**-digits + roundings * 2.0**-24 * size + 2.0**-25
        return roundings * 2.0 ** -min(digits, 52) * size + (2.0**-24 if digits < 24 else 0)

    def _all_reduce(self, step, me):
        parts = [self.rows(step, step.shape, rank) for rank in range(len(step.members))]
        return Case(tensor=[Slot(step.shape, parts[me], self.reduced(step, parts))])

    def _reduce(self, step, me):
        case = self._all_reduce(step, me)
        if me != step.root:
            case.slots["tensor"][0].after = None if self.has_defined_reduce else ANYTHING
        return case

    def _reduce_scatter(self, step, me):
        size = len(step.members)
        shapes = step.shapes or [step.shape] * size
        parts = [self.rows(step, shapes[me], rank, me) for rank in range(size)]
        mine = [self.rows(step, shapes[part], me, part) for part in range(size)]
        inputs = [Slot(shape, rows) for shape, rows in zip(shapes, mine)]
        output = Slot(shapes[me], None, self.reduced(step, parts))
        if step.in_place:
            inputs[me].after = output.after
        return Case(inputs=inputs, output=[] if step.in_place else [output])

    def _reduce_scatter_tensor(self, step, me):
        size = len(step.members)
        parts = [self.rows(step, step.shape, rank, me) for rank in range(size)]
        mine = [self.rows(step, step.shape, me, part) for part in range(size)]
        output = Slot(step.shape, None, self.reduced(step, parts))
        whole = Slot(self.together(step, size), np.concatenate(mine))
        if step.in_place:
            output.part_of = (whole, me)
        return Case(input=[whole], output=[output])

    def together(self, step, size):
        """The shape of all parts in one tensor: one after the other, each as one row, or without rows."""
        if step.is_flat:
            return (size * math.prod(step.shape),)
        if not step.stacks:
            return (size * step.shape[0], *step.shape[1:])
        return (size, *step.shape)

    def _all_reduce_coalesced(self, step, me):
        slots = []
        for number, shape in enumerate(step.shapes):
            parts = [self.rows(step, shape, rank, number) for rank in range(len(step.members))]
            slots.append(Slot(shape, parts[me], self.reduced(step, parts)))
        return Case(tensors=slots)

    _managed_all_reduce = _burst = _all_reduce_coalesced

    def _managed_reduce_scatter(self, step, me):
        size = len(step.members)
        case = Case(outputs=[], inputs=[])
        for number, shape in enumerate(step.shapes):
            parts = [self.rows(step, shape, rank, number, me) for rank in range(size)]
            mine = [self.rows(step, shape, me, number, part) for part in range(size)]
            case.slots["outputs"].append(Slot(shape, None, self.reduced(step, parts)))
            case.slots["inputs"].append(Slot((size * shape[0], *shape[1:]), np.concatenate(mine)))
        return case

    def _functional_all_reduce(self, step, me):
        parts = [self.rows(step, step.shape, rank) for rank in range(len(step.members))]
        return Case(input=[Slot(step.shape, parts[me])]).returns((step.shape, self.reduced(step, parts)))

    def _functional_reduce_scatter(self, step, me):
        size = len(step.members)
        parts = [self.rows(step, step.shape, rank, me) for rank in range(size)]
        mine = [self.rows(step, step.shape, me, part) for part in range(size)]
        whole = Slot((size * step.shape[0], *step.shape[1:]), np.concatenate(mine))
        return Case(input=[whole]).returns((step.shape, self.reduced(step, parts)))

    def _sparse_all_reduce(self, step, me):
        """The tensors are made of rows that are absent for some members."""
        return Case()

    def sparse(self, step, rank):
        """Returns the indices and the numbers of a member's sparse tensor. An index may be there twice."""
        random = self.random(step, rank)
        count = int(random.integers(0, 5))
        indices = random.integers(0, step.shape[0], (1, count))
        return indices, self.numbers(step, random, count * math.prod(step.shape[1:])).reshape(
            count, *step.shape[1:]
        )

    def sparse_sum(self, step):
        """Returns the dense result as numbers."""
        kind = DTYPES[step.dtype].kind
        total = np.zeros(step.shape, {"f": np.float64, "c": np.complex128}.get(kind, np.int64))
        size = np.zeros(step.shape)
        for rank in range(len(step.members)):
            indices, numbers = self.sparse(step, rank)
            np.add.at(total, indices[0], numbers)
            np.add.at(size, indices[0], np.abs(numbers))
        if kind == "b":
            return Near(np.minimum(total, 1), np.zeros(total.shape))
        if step.op == "AVG":
            members = len(step.members)
            total = total / members if kind in "fc" else np.sign(total) * (np.abs(total) // members)
        # A rank may have two numbers for one index.
        return Near(
            total,
            2 * self.bound(step, total, size) if step.values == "rough" else 0 * size,
        )

    # ---- broadcast, gathers ----

    def _broadcast(self, step, me):
        root = self.rows(step, step.shape, step.root)
        return Case(tensor=[Slot(step.shape, self.rows(step, step.shape, me), root)])

    def _functional_broadcast(self, step, me):
        root = self.rows(step, step.shape, step.root)
        mine = Slot(step.shape, self.rows(step, step.shape, me))
        return Case(input=[mine]).returns((step.shape, root))

    def _all_gather(self, step, me):
        shapes = step.shapes or [step.shape] * len(step.members)
        parts = [self.rows(step, shape, rank) for rank, shape in enumerate(shapes)]
        outputs = [Slot(shape, None, part) for shape, part in zip(shapes, parts)]
        mine = Slot(shapes[me], parts[me])
        if step.in_place:
            outputs[me], mine = Slot(shapes[me], parts[me], parts[me]), None
        return Case(outputs=outputs, input=[mine] if mine else [])

    def _gather(self, step, me):
        parts = [self.rows(step, step.shape, rank) for rank in range(len(step.members))]
        outputs = [Slot(step.shape, None, part) for part in parts] if me == step.root else []
        mine = Slot(step.shape, parts[me])
        if step.in_place and outputs:
            outputs[me], mine = Slot(step.shape, parts[me], parts[me]), None
        return Case(outputs=outputs, input=[mine] if mine else [])

    def _scatter(self, step, me):
        parts = [self.rows(step, step.shape, rank) for rank in range(len(step.members))]
        inputs = [Slot(step.shape, part) for part in parts] if me == step.root else []
        output = Slot(step.shape, None, parts[me])
        if step.in_place and inputs:  # the root's output is its own input
            inputs[me].after = parts[me]
            return Case(inputs=inputs, output=[])
        return Case(inputs=inputs, output=[output])

    def _all_gather_into_tensor(self, step, me):
        size = len(step.members)
        parts = [self.rows(step, step.shape, rank) for rank in range(size)]
        output = Slot(self.together(step, size), None, np.concatenate(parts))
        mine = Slot(step.shape, parts[me], part_of=(output, me) if step.in_place else None)
        return Case(output=[output], input=[mine])

    def _all_gather_coalesced(self, step, me):
        """The outputs are those of member 0, then those of member 1, and so on."""
        case = Case(outputs=[], inputs=[])
        for rank in range(len(step.members)):
            for number, shape in enumerate(step.shapes):
                case.slots["outputs"].append(Slot(shape, None, self.rows(step, shape, rank, number)))
        for number, shape in enumerate(step.shapes):
            case.slots["inputs"].append(Slot(shape, self.rows(step, shape, me, number)))
        return case

    def _managed_all_gather(self, step, me):
        size = len(step.members)
        case = Case(outputs=[], inputs=[])
        for number, shape in enumerate(step.shapes):
            parts = [self.rows(step, shape, rank, number) for rank in range(size)]
            whole = (size * shape[0], *shape[1:])
            case.slots["outputs"].append(Slot(whole, None, np.concatenate(parts)))
            case.slots["inputs"].append(Slot(shape, parts[me]))
        return case

    def _functional_all_gather(self, step, me):
        size = len(step.members)
        parts = [self.rows(step, step.shape, rank) for rank in range(size)]
        whole = (size * step.shape[0], *step.shape[1:])
        return Case(input=[Slot(step.shape, parts[me])]).returns((whole, np.concatenate(parts)))

    # ---- alltoalls ----

    def _all_to_all(self, step, me):
        size = len(step.members)

        def part(sender, receiver):
            shape = step.shapes[step.rows[sender][receiver]] if step.splits else step.shape
            return shape, self.rows(step, shape, sender, receiver)

        outputs = [part(sender, me) for sender in range(size)]
        return Case(
            inputs=[Slot(*part(me, receiver)) for receiver in range(size)],
            outputs=[Slot(shape, None, rows) for shape, rows in outputs],
        )

    def _all_to_all_single(self, step, me):
        received = [self.alltoall_rows(step, sender, me) for sender in range(len(step.members))]
        output = Slot(self.alltoall_shape(step, [each[me] for each in step.rows]), None,
                      np.concatenate(received))  # fmt: skip
        return Case(input=[self.alltoall_input(step, me)], output=[output])

    def _functional_all_to_all(self, step, me):
        received = [self.alltoall_rows(step, sender, me) for sender in range(len(step.members))]
        shape = self.alltoall_shape(step, [each[me] for each in step.rows])
        return Case(input=[self.alltoall_input(step, me)]).returns((shape, np.concatenate(received)))

    def alltoall_input(self, step, me):
        sent = [self.alltoall_rows(step, me, receiver) for receiver in range(len(step.members))]
        return Slot(self.alltoall_shape(step, step.rows[me]), np.concatenate(sent))

    def alltoall_rows(self, step, sender, receiver):
        return self.rows(step, (step.rows[sender][receiver], *step.shape), sender, receiver)

    @staticmethod
    def alltoall_shape(step, rows):
        return (sum(rows), *step.shape)

    # ---- messages, and calls without tensors ----

    def _messages(self, step, me):
        """The sent and received tensors, by the numbers of their messages."""
        case = Case(sent=[], received=[])
        for number, each in enumerate(step.messages):
            rows = self.rows(step, each.shape, number)
            if each.source == me:
                case.slots["sent"].append(Slot(each.shape, rows))
            if each.target == me:
                case.slots["received"].append(Slot(each.shape_there, None, rows))
        return case

    _messages_async = _messages_batch = _messages

    def _any_source(self, step, me):
        """The root receives one message from each other member; which one comes first is not known."""
        if me != step.root:
            return Case(sent=[Slot(step.shape, self.rows(step, step.shape, me))])
        return Case(received=[Slot(step.shape, None, ANYTHING) for _ in step.members[1:]])

    def _barrier(self, step, me):
        return Case()

    _monitored_barrier = _barrier
    _all_gather_object = _gather_object = _broadcast_object_list = _barrier
    _scatter_object_list = _send_object_list = _barrier

    def objects(self, step, *keys):
        """Returns an object that depends on its keys: of simple types, so that == compares it."""
        random = self.random(step, *keys)
        return {
            "keys": keys,
            "text": "é" * int(random.integers(0, 40)),
            "bytes": random.bytes(int(random.choice([0, 1, 100, 5000]))),
            "list": [
                None,
                True,
                random.random(),
                [int(each) for each in random.integers(0, 99, 3)],
            ],
        }


def _reduced_bools(op, parts):
    stacked = np.stack(parts)
    if op in ("SUM", "MAX", "BOR"):
        return stacked.any(0)
    if op == "BXOR":
        return stacked.sum(0) % 2 == 1
    return stacked.all(0)


def _reduced_integers(step, parts):
    """Integers that overflow wrap around, except within an average."""
    kind = parts[0].dtype
    if step.op == "AVG":
        totals = [sum(int(part[i]) for part in parts) for i in range(parts[0].size)]
        size = len(parts)
        return np.array(
            [abs(each) // size * (1 if each >= 0 else -1) for each in totals],
            dtype=kind,
        )
    if step.op == "PREMUL_SUM":
        factor = int(step.factor)
        bits = 8 * kind.itemsize
        totals = [sum(int(part[i]) * factor for part in parts) % 2**bits for i in range(parts[0].size)]
        return np.array(totals, dtype=np.uint64).astype(f"u{kind.itemsize}").view(kind)
    function = {"SUM": np.add, "PRODUCT": np.multiply, "MIN": np.minimum, "MAX": np.maximum,
                "BAND": np.bitwise_and, "BOR": np.bitwise_or, "BXOR": np.bitwise_xor}[step.op]  # fmt: skip
    with np.errstate(over="ignore"):
        return function.reduce(np.stack(parts), axis=0, dtype=kind)


def _reduced_reals(step, parts):
    stacked = np.stack(parts)
    if step.op == "MIN":
        return stacked.min(0)
    if step.op == "MAX":
        return stacked.max(0)
    if step.op == "PRODUCT":
        return stacked.prod(0)
    total = (stacked * step.factor).sum(0)
    return total / len(parts) if step.op == "AVG" else total
