"""The calls of torch.distributed that a step makes, with the tensors of its Case."""

import random
import warnings

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from program import REDUCING

warnings.filterwarnings("ignore", category=FutureWarning)
warnings.filterwarnings("ignore", category=UserWarning)

# Calls in which torch lets a conjugate tensor pass. Others raise in torch itself, at view_as_real.
TAKE_CONJUGATES = ("reduce", "gather", "reduce_scatter", "reduce_scatter_tensor", "functional_all_reduce",
                   "functional_all_gather", "functional_reduce_scatter", "functional_all_to_all",
                   "functional_broadcast")  # fmt: skip

# Gloo's dtypes, and the calls that it lacks.
GLOO_DTYPES = ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool",
               "complex64", "complex128")  # fmt: skip
GLOO_LACKS = ("all_to_all", "managed_all_reduce", "managed_all_gather", "managed_reduce_scatter",
              "all_reduce_coalesced", "all_gather_coalesced", "sparse_all_reduce")  # fmt: skip


def lacks(backend, step):
    """Returns True if the backend does not have this call."""
    if backend == "dabke":
        return False
    is_complex = step.dtype.startswith("complex")
    return (
        step.dtype not in GLOO_DTYPES
        or step.kind in GLOO_LACKS
        or step.stacks
        or step.is_flat
        or step.op in ("AVG", "PREMUL_SUM")
        or (step.kind in ("all_gather", "reduce_scatter") and step.splits)
        or (step.kind in REDUCING and step.dtype == "bool")
        or (is_complex and step.kind in TAKE_CONJUGATES)  # torch passes pairs of real numbers in the others
        or (step.kind == "any_source" and 0 in step.shape)
        or ("reduce_scatter" in step.kind and 0 in step.shape)
    )


def has_futures(backend, step):
    """Returns True if the works of this call have futures."""
    return backend == "dabke" or not step.kind.startswith(("reduce_scatter", "messages"))


class Call:
    """The calls of one step. A method returns the works that are pending, or None."""

    def __init__(self, step, group, me, tensors, oracle, seed):
        self.step, self.group, self.me, self.tensors, self.oracle = (
            step,
            group,
            me,
            tensors,
            oracle,
        )
        self.random = random.Random(f"order {seed} {step.number} {step.members[me]}")
        self.returned = []  # tensors that the call has made
        self.objects = []  # pairs: an object that was received, and the expected one

    def make(self):
        return getattr(self, "_" + self.step.kind)()

    # ---- arguments ----

    def root(self, name):
        step = self.step
        if step.by_group_rank:
            return {f"group_{name}": step.root}
        return {name: step.members[step.root]}

    @property
    def common(self):
        return {"group": self.group, "async_op": self.step.is_async}

    @property
    def op(self):
        if self.step.op == "PREMUL_SUM":
            return dist._make_nccl_premul_sum(self.step.factor)
        return getattr(dist.ReduceOp, self.step.op)

    def only(self, role):
        return self.tensors[role][0]

    def own_part(self, role, whole):
        """The tensor of a role, or the rank's own part of a list, for a call in place."""
        return self.tensors[role][0] if self.tensors[role] else self.tensors[whole][self.me]

    @staticmethod
    def works(work):
        return None if work is None else [work]

    # ---- reductions ----

    def _all_reduce(self):
        return self.works(dist.all_reduce(self.only("tensor"), self.op, **self.common))

    def _reduce(self):
        return self.works(dist.reduce(self.only("tensor"), op=self.op, **self.root("dst"), **self.common))

    def _reduce_scatter(self):
        output = self.own_part("output", "inputs")
        return self.works(dist.reduce_scatter(output, self.tensors["inputs"], self.op, **self.common))

    def _reduce_scatter_tensor(self):
        return self.works(
            dist.reduce_scatter_tensor(self.only("output"), self.only("input"), self.op, **self.common)
        )

    def _all_reduce_coalesced(self):
        return self.works(dist.all_reduce_coalesced(self.tensors["tensors"], self.op, **self.common))

    def _burst(self):
        """More calls of one shape than the names that a signature has."""
        return [dist.all_reduce(each, self.op, **self.common) for each in self.tensors["tensors"]]

    def managed(self, call):
        with dist._coalescing_manager(group=self.group, async_ops=self.step.is_async) as manager:
            call()
        return list(manager.works) if self.step.is_async else None

    def _managed_all_reduce(self):
        def call():
            for each in self.tensors["tensors"]:
                dist.all_reduce(each, self.op, group=self.group)

        return self.managed(call)

    def _managed_all_gather(self):
        def call():
            for output, input in zip(self.tensors["outputs"], self.tensors["inputs"]):
                dist.all_gather_into_tensor(output, input, group=self.group)

        return self.managed(call)

    def _managed_reduce_scatter(self):
        def call():
            for output, input in zip(self.tensors["outputs"], self.tensors["inputs"]):
                dist.reduce_scatter_tensor(output, input, self.op, group=self.group)

        return self.managed(call)

    def _sparse_all_reduce(self):
        step = self.step
        indices, numbers = self.oracle.sparse(step, self.me)
        values = torch.from_numpy(numbers).to(getattr(torch, step.dtype))
        tensor = torch.sparse_coo_tensor(torch.from_numpy(indices), values, step.shape, check_invariants=True)
        self.returned = [tensor]
        if tensor.is_complex():  # dist.all_reduce would pass a copy
            options = dist.AllreduceOptions()
            options.reduceOp = self.op
            work = self.group.allreduce([tensor], options)
            if step.is_async:
                return [work]
            work.wait()
            return None
        return self.works(dist.all_reduce(tensor, self.op, **self.common))

    # ---- broadcast, gathers, alltoalls ----

    def _broadcast(self):
        return self.works(dist.broadcast(self.only("tensor"), **self.root("src"), **self.common))

    def _all_gather(self):
        input = self.own_part("input", "outputs")
        return self.works(dist.all_gather(self.tensors["outputs"], input, **self.common))

    def _all_gather_into_tensor(self):
        return self.works(dist.all_gather_into_tensor(self.only("output"), self.only("input"), **self.common))

    def _all_gather_coalesced(self):
        outputs, count = self.tensors["outputs"], len(self.step.shapes)
        lists = [outputs[i : i + count] for i in range(0, len(outputs), count)]
        return self.works(dist.all_gather_coalesced(lists, self.tensors["inputs"], **self.common))

    def _gather(self):
        outputs = self.tensors["outputs"] or None
        input = self.own_part("input", "outputs")
        return self.works(dist.gather(input, outputs, **self.root("dst"), **self.common))

    def _scatter(self):
        inputs = self.tensors["inputs"] or None
        output = self.own_part("output", "inputs")
        return self.works(dist.scatter(output, inputs, **self.root("src"), **self.common))

    def _all_to_all(self):
        return self.works(dist.all_to_all(self.tensors["outputs"], self.tensors["inputs"], **self.common))

    def _all_to_all_single(self):
        return self.works(
            dist.all_to_all_single(self.only("output"), self.only("input"), *self.splits(), **self.common)
        )

    def splits(self):
        rows = self.step.rows
        return ([each[self.me] for each in rows], rows[self.me]) if self.step.splits else (None, None)

    # ---- functional collectives, whose results are waited for when they are used ----

    def gets(self, tensor):
        self.returned = [tensor]
        return [tensor] if self.step.is_async else tensor.wait() is None or None

    def _functional_all_reduce(self):
        return self.gets(functional.all_reduce(self.only("input"), self.step.op, self.group))

    def _functional_reduce_scatter(self):
        return self.gets(functional.reduce_scatter_tensor(self.only("input"), self.step.op, 0, self.group))

    def _functional_all_gather(self):
        return self.gets(functional.all_gather_tensor(self.only("input"), 0, self.group))

    def _functional_all_to_all(self):
        return self.gets(functional.all_to_all_single(self.only("input"), *self.splits(), self.group))

    def _functional_broadcast(self):
        return self.gets(functional.broadcast(self.only("input"), self.step.root, self.group))

    # ---- barriers ----

    def _barrier(self):
        return self.works(dist.barrier(**self.common))

    def _monitored_barrier(self):
        self.group.monitored_barrier()

    # ---- objects ----

    def expect(self, got, *keys):
        self.objects.append((got, self.oracle.objects(self.step, *keys)))

    def _all_gather_object(self):
        received = [None] * len(self.step.members)
        dist.all_gather_object(received, self.oracle.objects(self.step, self.me), group=self.group)
        for rank, each in enumerate(received):
            self.expect(each, rank)

    def _gather_object(self):
        received = [None] * len(self.step.members) if self.me == self.step.root else None
        mine = self.oracle.objects(self.step, self.me)
        dist.gather_object(mine, received, group=self.group, **self.root("dst"))
        for rank, each in enumerate(received or []):
            self.expect(each, rank)

    def _broadcast_object_list(self):
        objects = [self.oracle.objects(self.step, self.me, i) for i in range(3)]
        dist.broadcast_object_list(objects, group=self.group, **self.root("src"))
        for i, each in enumerate(objects):
            self.expect(each, self.step.root, i)

    def _scatter_object_list(self):
        received = [None]
        objects = [self.oracle.objects(self.step, i) for i in range(len(self.step.members))]
        mine = objects if self.me == self.step.root else None
        dist.scatter_object_list(received, mine, group=self.group, **self.root("src"))
        self.expect(received[0], self.me)

    def _send_object_list(self):
        """The root sends to its neighbour."""
        target = (self.step.root + 1) % len(self.step.members)
        if self.me == self.step.root:
            objects = [self.oracle.objects(self.step, i) for i in range(2)]
            dist.send_object_list(objects, group=self.group, **self.rank("dst", target))
        elif self.me == target:
            received = [None, None]
            dist.recv_object_list(received, group=self.group, **self.rank("src", self.step.root))
            for i, each in enumerate(received):
                self.expect(each, i)

    # ---- messages ----

    def rank(self, name, rank):
        if self.step.by_group_rank:
            return {f"group_{name}": rank}
        return {name: self.step.members[rank]}

    def mine(self):
        """Returns (message, tensor, True if this rank sends it) in the order of the messages."""
        sent, received = iter(self.tensors["sent"]), iter(self.tensors["received"])
        found = []
        for each in self.step.messages:
            if each.source == self.me:
                found.append((each, next(sent), True))
            elif each.target == self.me:
                found.append((each, next(received), False))
        return found

    def _messages(self):
        """One message after the other. Some of the calls do not block."""
        works = []
        for message, tensor, is_sent in self.mine():
            common = {"group": self.group, "tag": message.tag}
            place = self.rank("dst", message.target) if is_sent else self.rank("src", message.source)
            if self.random.random() < 0.3:
                works.append((dist.isend if is_sent else dist.irecv)(tensor, **common, **place))
            elif is_sent:
                dist.send(tensor, **common, **place)
            else:
                source = dist.recv(tensor, **common, **place)
                self.objects.append((source, self.step.members[message.source]))
        for work in works:
            work.wait()

    def shuffled(self):
        """The messages in a random order, except that those of one pair and tag keep theirs."""
        ordered = self.mine()
        keys = [(message.source, message.target, message.tag) for message, _, _ in ordered]
        by_key = {key: [each for each, other in zip(ordered, keys) if other == key] for key in keys}
        self.random.shuffle(keys)
        return [by_key[key].pop(0) for key in keys]

    def _messages_async(self):
        works = []
        for message, tensor, is_sent in self.shuffled():
            if is_sent:
                call, place = dist.isend, self.rank("dst", message.target)
            else:
                call, place = dist.irecv, self.rank("src", message.source)
            works.append(call(tensor, group=self.group, tag=message.tag, **place))
        return works

    def _messages_batch(self):
        operations = []
        for message, tensor, is_sent in self.shuffled():
            peer = message.target if is_sent else message.source
            place = {"group_peer": peer} if self.step.by_group_rank else {"peer": self.step.members[peer]}
            call = dist.isend if is_sent else dist.irecv
            operations.append(dist.P2POp(call, tensor, group=self.group, tag=message.tag, **place))
        for work in dist.batch_isend_irecv(operations) if operations else []:
            work.wait()

    def _any_source(self):
        """The order in which messages come is not known, but each comes once and unchanged."""
        step = self.step
        # A tag of its own: a rank may be a step ahead, and its next message must not be taken for this one.
        tag = 100 + step.number
        if self.me != step.root:
            dist.send(
                self.only("sent"),
                group=self.group,
                tag=tag,
                **self.rank("dst", step.root),
            )
            return
        sources = []
        for tensor in self.tensors["received"]:
            source = step.members.index(dist.recv(tensor, group=self.group, tag=tag))
            sources.append(source)
            wanted = self.oracle.rows(step, step.shape, source).tobytes()
            # A clone, because contiguous() leaves a single element its stride.
            flat = (
                tensor.resolve_neg().resolve_conj().reshape(-1).clone(memory_format=torch.contiguous_format)
            )
            got = flat.as_strided((flat.numel(),), (1,)).view(torch.uint8)
            self.objects.append((got.numpy().tobytes(), wanted))
        others = [rank for rank in range(len(step.members)) if rank != self.me]
        self.objects.append((sorted(sources), others))
