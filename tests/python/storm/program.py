"""The random program of a seed: phases with groups and lanes, and the steps of each lane.

All ranks make the same program. A lane is a thread with groups of its own. All members of a group make the
same calls on it in the same order; when they wait for pending calls differs between ranks.
"""

import random
from dataclasses import dataclass, field

from dtypes import DTYPES, REDUCIBLE

BLOCK = 50  # seeds of one job
MOST_RANKS = 4

REDUCTIONS = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor")
GATHERS = ("broadcast", "gather", "scatter", "all_gather", "all_gather_into_tensor")
ALLTOALLS = ("all_to_all", "all_to_all_single")
COALESCED = ("all_reduce_coalesced", "all_gather_coalesced", "managed_all_reduce", "managed_all_gather",
             "managed_reduce_scatter", "burst")  # fmt: skip
FUNCTIONAL = ("functional_all_reduce", "functional_all_gather", "functional_reduce_scatter",
              "functional_all_to_all", "functional_broadcast")  # fmt: skip
OBJECTS = ("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list",
           "send_object_list")  # fmt: skip
MESSAGES = ("messages", "messages_async", "messages_batch")
OTHERS = ("barrier", "monitored_barrier", "sparse_all_reduce", "any_source")
BLOCKING = (*OBJECTS, "messages", "monitored_barrier", "any_source", "messages_batch")

OPS = ("SUM", "AVG", "MIN", "MAX", "PRODUCT", "BAND", "BOR", "BXOR", "PREMUL_SUM")
SPARSE_DTYPES = (
    "float32",
    "float64",
    "int8",
    "int32",
    "int64",
    "uint8",
    "bool",
    "complex64",
    "complex128",
)
OPS_OF_BOOL = tuple(op for op in OPS if op not in ("AVG", "PREMUL_SUM"))
SETTINGS = (
    {},
    {"DABKE_DUPLICATE_NAMES": "error"},
    {"DABKE_CPU_OPERATIONS": "tcp"},
    {"DABKE_FUSION_THRESHOLD": "0", "DABKE_CACHE_CAPACITY": "4"},
    {"DABKE_CPU_OPERATIONS": "gloo"},
)
FLAGS = ("is_async", "in_place", "stacks", "is_flat", "splits", "by_group_rank")
TAGS = (0, 0, 1, 7, 2**20)


@dataclass
class Message:
    source: int  # group ranks
    target: int
    tag: int
    shape: tuple  # of the sender's tensor
    shape_there: tuple


@dataclass
class Step:
    number: int
    lane: int
    group: int
    kind: str
    members: list[int]  # world ranks, in the order of the group
    dtype: str = "float32"
    op: str = "SUM"
    factor: float = 1.0
    values: str = "bits"  # bits; and for reductions: exact, wide (integers that overflow), rough (rounded)
    root: int = 0
    by_group_rank: bool = False
    is_async: bool = False
    in_place: bool = False  # the input is the rank's own part of the output, or the output that of the input
    stacks: bool = False  # a tensor of all parts has one more dimension
    is_flat: bool = False  # a tensor of all parts has one dimension
    shape: tuple = ()
    shapes: list = field(default_factory=list)  # for each member, or each tensor of a coalesced call
    rows: list = field(default_factory=list)  # [sender][receiver] of an alltoall
    splits: bool = False
    messages: list[Message] = field(default_factory=list)

    def text(self):
        parts = [f"step {self.number} lane {self.lane} group {self.group} {self.members}: {self.kind}"]
        parts.append(f"{self.dtype} {self.values}")
        if self.kind in REDUCING:
            parts.append(f"{self.op}" + (f" {self.factor}" if self.op == "PREMUL_SUM" else ""))
        parts += [f"root {self.root}"] if self.kind in ROOTED else []
        if self.kind == "burst":
            parts.append(f"{len(self.shapes)} times shape {self.shapes[0]}")
        else:
            parts.append(f"shapes {self.shapes}" if self.shapes else f"shape {self.shape}")
        parts += [f"rows {self.rows}"] if self.rows else []
        parts += [f"{m.source}->{m.target} tag {m.tag} {m.shape} as {m.shape_there}" for m in self.messages]
        parts += [each for each in FLAGS if getattr(self, each)]
        return ", ".join(parts)


REDUCING = (*REDUCTIONS, "burst", "all_reduce_coalesced", "managed_all_reduce", "managed_reduce_scatter",
            "functional_all_reduce", "functional_reduce_scatter", "sparse_all_reduce")  # fmt: skip
ROOTED = ("reduce", "broadcast", "gather", "scatter", "functional_broadcast", "gather_object",
          "broadcast_object_list", "scatter_object_list", "send_object_list", "any_source")  # fmt: skip


@dataclass
class GroupPlan:
    number: int  # 0: the world
    lane: int
    members: list[int]  # in the order of group ranks
    sorts: bool = True
    is_local: bool = False  # made by its members alone
    is_mixed: bool = False  # with another backend for other devices

    def text(self):
        words = f"{self.members}, lane {self.lane}" + ("" if self.sorts else ", unsorted")
        words += ", made by its members alone" if self.is_local else ""
        return f"group {self.number} of {words}" + (", with another backend" if self.is_mixed else "")


@dataclass
class Phase:
    groups: list[GroupPlan]
    lanes: list[list[Step]]
    destroyed: list[int]


@dataclass
class Program:
    seed: int
    ranks: int
    has_fresh_world: bool
    phases: list[Phase]

    def text(self):
        lines = [f"seed {self.seed}: {self.ranks} ranks" + (", a fresh world" * self.has_fresh_world)]
        lines += ["TORCH_DISTRIBUTED_DEBUG=DETAIL"] if has_detail(self.seed) else []
        lines += [f"{name}={value}" for name, value in settings_of(self.seed).items()]
        for number, phase in enumerate(self.phases):
            lines.append(f"phase {number}")
            lines += [f"  {each.text()}" for each in phase.groups]
            lines += [f"  {step.text()}" for lane in phase.lanes for step in lane]
            lines += [f"  destroy group {each}" for each in phase.destroyed]
        return "\n".join(lines)

    def steps(self):
        return [step for phase in self.phases for lane in phase.lanes for step in lane]


def ranks_of(seed):
    return 2 + (seed // BLOCK) % (MOST_RANKS - 1)


def has_detail(seed):
    """True if the job of the seed has TORCH_DISTRIBUTED_DEBUG=DETAIL."""
    return seed // BLOCK % 4 == 3


def settings_of(seed):
    """Returns Dabke's settings in the job of the seed, as variables of the environment."""
    return SETTINGS[seed // BLOCK % len(SETTINGS)]


def make(seed, without=()):
    """Returns the program, without the steps of these numbers."""
    program = _Maker(seed).program()
    for phase in program.phases:
        phase.lanes = [[step for step in lane if step.number not in without] for lane in phase.lanes]
    return program


class _Maker:
    def __init__(self, seed):
        self.seed, self.ranks = seed, ranks_of(seed)
        self.random = random.Random(f"c10d storm {seed}")
        self.groups = {0: GroupPlan(0, 0, list(range(self.ranks)))}
        self.groups_made, self.steps_made = 0, 0

    def chance(self, probability):
        return self.random.random() < probability

    def program(self):
        has_fresh_world = self.chance(0.1)
        phases = [self.phase() for _ in range(self.random.randint(1, 4))]
        return Program(self.seed, self.ranks, has_fresh_world, phases)

    # ---- groups ----

    def phase(self):
        lanes = self.random.choice([1, 1, 2, 3])
        made = []
        for lane in range(lanes):
            has_any = any(group.lane == lane for group in self.groups.values())
            for _ in range(self.random.randint(0 if has_any else 1, 2)):
                made.append(self.group(lane))
        steps = [self.lane(lane) for lane in range(lanes)]
        destroyed = [each for each in self.groups if each and self.chance(0.5)]
        self.random.shuffle(destroyed)
        for each in destroyed:
            del self.groups[each]
        return Phase(made, steps, destroyed)

    def group(self, lane):
        self.groups_made += 1
        size = self.random.choice([1, *range(2, self.ranks + 1), *range(2, self.ranks + 1)])
        members = self.random.sample(range(self.ranks), size)
        sorts = self.chance(0.5)
        members = sorted(members) if sorts else members
        # Torch names a group that its members make by the number of groups that a member is in.
        counts = {sum(rank in each.members for each in self.groups.values()) for rank in members}
        is_new = all(set(members) != set(each.members) for each in self.groups.values() if each.is_local)
        is_local = is_new and len(counts) == 1 and self.chance(0.3)
        group = GroupPlan(self.groups_made, lane, members, sorts, is_local, self.chance(0.15))
        self.groups[group.number] = group
        return group

    # ---- steps ----

    def lane(self, lane):
        usable = [each for each in self.groups.values() if each.lane == lane]
        return [self.step(self.random.choice(usable)) for _ in range(self.random.randint(3, 16))]

    def step(self, group):
        family = self.random.choice([REDUCTIONS] * 4 + [GATHERS] * 4 + [ALLTOALLS] * 2 + [MESSAGES] * 3
                                    + [COALESCED, FUNCTIONAL, OBJECTS, OTHERS])  # fmt: skip
        kind = self.random.choice(family)
        if len(group.members) == 1 and (kind in MESSAGES or kind in ("send_object_list", "any_source")):
            kind = "all_reduce"
        self.steps_made += 1
        step = Step(self.steps_made, group.lane, group.number, kind, group.members)
        step.root = self.random.randrange(len(group.members))
        step.by_group_rank = self.chance(0.5)
        step.is_async = kind not in BLOCKING and self.chance(0.6)
        step.in_place = self.chance(0.15)
        step.dtype = self.random.choice(list(DTYPES))
        if kind in REDUCING:
            self.reduction(step)
        self.sizes(step)
        return step

    def reduction(self, step):
        step.dtype = self.random.choice(REDUCIBLE)
        kind = DTYPES[step.dtype].kind
        ops = {
            "f": OPS[:5] + OPS[8:],
            "c": ("SUM", "AVG", "PREMUL_SUM"),
            "b": OPS_OF_BOOL,
        }.get(kind, OPS)
        if step.kind == "sparse_all_reduce":
            step.dtype = self.random.choice(SPARSE_DTYPES)
            kind = DTYPES[step.dtype].kind
            ops = ("SUM", "AVG") if kind != "b" else ("SUM",)
        elif step.kind.startswith(("functional", "managed")):
            ops = [each for each in ops if each != "PREMUL_SUM"]
        step.op = self.random.choice(ops)
        step.values = "exact"
        if step.op == "PREMUL_SUM":
            step.factor = self.random.choice({"f": (0.5, 2.0, -1.0), "c": (0.5, 2.0), "i": (2.0, 3.0, -1.0)}
                                             .get(kind, (2.0, 3.0)))  # fmt: skip
        elif kind in "iu" and self.chance(0.4):
            # An average of 64 bits is right only if the sum fits.
            fits = step.op != "AVG" or DTYPES[step.dtype].size < 8
            step.values = "wide" if fits and step.kind != "sparse_all_reduce" else "exact"
        elif kind in "fc" and (step.op == "AVG" or step.op in ("SUM", "PRODUCT") and self.chance(0.3)):
            step.values = "rough"

    def shape(self, rank=None):
        """A random shape. Most are small."""
        if rank is None:
            rank = self.random.choice([0, 1, 1, 1, 2, 2, 2, 3, 4])
        if rank == 1 and self.chance(0.04):
            return (self.random.randint(1000, 400000 if self.chance(0.1) else 50000),)
        most = (0, 40, 9, 6, 4)[rank]
        low = 0 if self.chance(0.15) else 1
        return tuple(1 if self.chance(0.1) else self.random.randint(low, most) for _ in range(rank))

    def sizes(self, step):
        size = len(step.members)
        step.shape = self.shape()
        if step.kind in (
            "all_reduce_coalesced",
            "all_gather_coalesced",
        ) or step.kind.startswith("managed"):
            first = 1 if step.kind in ("managed_all_gather", "managed_reduce_scatter") else None
            step.shapes = [self.shape(first) for _ in range(self.random.randint(1, 4))]
        elif step.kind in (
            "all_gather",
            "reduce_scatter",
            "all_to_all",
        ) and self.chance(0.4):
            step.splits = True  # the parts differ
            step.shapes = [self.shape() for _ in range(size)]
        elif step.kind == "burst":
            step.is_async, shape = True, self.shape(self.random.choice([0, 1]))
            step.shapes = [shape] * self.random.randint(20, 70)
        elif step.kind in ("all_gather_into_tensor", "reduce_scatter_tensor"):
            step.is_flat = self.chance(0.2)
            step.stacks = not step.is_flat and (not step.shape or self.chance(0.4))
            step.in_place = step.in_place and not step.is_flat
        elif step.kind.startswith("functional") and not step.kind.endswith(("reduce", "broadcast")):
            step.shape = self.shape(self.random.choice([1, 2, 3]))
        if step.kind in ("all_to_all_single", "functional_all_to_all"):
            self.alltoall_rows(step, size)
        elif step.kind == "all_to_all" and step.splits:
            step.rows = [[self.random.randrange(size) for _ in range(size)] for _ in range(size)]
        elif step.kind in MESSAGES:
            step.messages = self.messages(size)
        elif step.kind == "sparse_all_reduce":
            step.shape = tuple(self.random.randint(1, 6) for _ in range(self.random.randint(1, 3)))

    def alltoall_rows(self, step, size):
        step.shape = self.shape(self.random.choice([0, 0, 1, 2]))  # of a row
        step.splits = self.chance(0.6)
        each = self.random.randint(0, 5)
        step.rows = [
            [self.random.choice([0, 1, 2, 3, 7]) if step.splits else each for _ in range(size)]
            for _ in range(size)
        ]

    def messages(self, size):
        made = []
        for _ in range(self.random.randint(1, 6)):
            source, target = self.random.sample(range(size), 2)
            shape = self.shape()
            there = shape
            if self.chance(0.2):
                count = 1
                for each in shape:
                    count *= each
                there = (count,)
            made.append(Message(source, target, self.random.choice(TAGS), shape, there))
        return made
