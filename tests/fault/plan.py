"""Makes a job and its faults from a seed. The same seed gives the same plan, whatever ran before."""

import random
import re
import subprocess
from dataclasses import dataclass, field

import moments

MOST_TRIES = 50
# The phases have the names of the summary; a phase occurs where the storm's program has its point.
PHASES = [
    "init",
    "first steps",
    "steady state",
    "join",
    "process sets",
    "shutdown",
    "throughout",
    *moments.PHASES,
]
POINTS = {"init": "init", "join": "join", "process sets": "change", "shutdown": "leave"}
FIRST_STEPS = 2

# The possible effects of a fault. Between the short and the long time of silence, either effect may occur, so
# no time is drawn there.
NOTHING, DEATH, SILENCE, FAILURE = "nothing", "death", "silence", "failure"
SHORT_STOP_SECONDS, SHORT_CUT_SECONDS = 1.0, 0.3
LONG_SECONDS = 6.0
STOP_BEFORE_KILL_SECONDS = 0.1
FROM_THE_BEGINNING = ("full disk",)


@dataclass(frozen=True)
class Fault:
    rank: int
    phase: str
    nth: int  # the number of the rank's visit to the phase's point, or the number of the message
    delay_us: int  # the delay after that visit
    kind: str  # as named in the summary
    effect: str  # the worst possible effect
    action: str = ""  # as in STORM_FAULTS; empty: the fault is there from the beginning
    argument: str = ""
    seconds: float = 0  # the duration
    point: str = ""  # the point, if the phase has several

    def line(self):
        """The fault's line in STORM_FAULTS."""
        if not self.action:
            return f"{self.rank} never 0 0 kill"
        point = self.point or POINTS.get(self.phase, "step")
        return f"{self.rank} {point} {self.nth} {self.delay_us} {self.action} {self.argument}".rstrip()

    def __str__(self):
        what = f"{self.kind} {self.argument}".rstrip()
        return f"rank {self.rank}: {what}, {self.phase} ({self.nth}), after {self.delay_us} us"


@dataclass
class Plan:
    seed: int
    program: int  # the storm's seed
    steady: int  # STORM_STEADY
    ranks: int
    # The starter: processes, hosts (processes in network namespaces), dabkerun, agents (dabkerun's, on such
    # hosts), mpich, openmpi.
    start: str
    places: list  # the host of each rank, if there are several
    operations: str  # the values of DABKE_CPU_OPERATIONS and DABKE_CONTROLLER, for the summary
    faults: list = field(default_factory=list)
    wires: dict = field(default_factory=dict)  # {host: faults of its wire}
    python: bool = False  # the ranks are Python programs
    devices: bool = False  # some tensors are on CUDA devices of the double
    messages: bool = False  # the program has timed messages, and its faults come in their phases
    forbids_reads: bool = False  # the ranks may not read the memory of other processes

    def __str__(self):
        where = f" on hosts {self.places}" if self.places else ""
        kind = "Python ranks" if self.python else "ranks"
        more = ", some tensors on devices" if self.devices else ""
        if self.messages:
            more += ", timed messages" + (", no reads of other processes" if self.forbids_reads else "")
        return "; ".join(
            [
                f"{self.ranks} {kind} by {self.start}{where}, {self.operations}, "
                f"storm program {self.program}{more}",
                *map(str, self.faults),
            ]
        )

    @property
    def lines(self):
        """The value of STORM_FAULTS; its lines are numbered as the faults are."""
        return "\n".join(fault.line() for fault in self.faults)

    @property
    def stop_seconds(self):
        return sum(fault.seconds for fault in self.faults if fault.action == "stop")


class Worker:
    """The reports of a rank's program about itself. `command` is the storm's worker or python_rank.py."""

    def __init__(self, *command):
        self.command = list(command)

    def _said(self, what, program, steady, **more):
        done = subprocess.run(
            [*self.command, what, str(program)],
            check=True,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env={"STORM_STEADY": str(steady), **more},
        )
        return done.stdout.split("\n")

    def shown(self, program, steady):
        """Returns (ranks, starter, ranks per host, the epochs' knobs)."""
        lines = self._said("--show", program, steady)
        ranks, starter, each = re.match(r"seed \d+: (\d+) ranks, (\w+), (\d+) a host", lines[0]).groups()
        return (
            int(ranks),
            starter,
            int(each),
            [dict(re.findall(r"DABKE_(\w+)=([^,\s]*)", line)) for line in lines if line.startswith("epoch:")],
        )

    def points(self, program, steady):
        """Returns {rank: {point: number of visits}}."""
        points = {}
        for line in filter(None, self._said("--points", program, steady)):
            rank, point, count = line.split()
            points.setdefault(int(rank), {})[point] = int(count)
        return points

    def messages(self, program, steady):
        """Returns the timed messages of the program."""
        lines = self._said("--messages", program, steady, STORM_MESSAGES="1")
        rows = [[int(word) for word in line.split()] for line in lines if line]
        return [
            moments.Message(number, sender, receiver, bool(late), size_bytes, bool(from_any), bool(met))
            for number, sender, receiver, late, size_bytes, from_any, met in rows
        ]


def is_of_python(seed):
    return random.Random(f"python {seed}").random() < 0.1


def is_on_devices(seed):
    return not is_of_python(seed) and random.Random(f"devices {seed}").random() < 0.2


def is_of_messages(seed):
    return (
        not is_of_python(seed)
        and not is_on_devices(seed)
        and random.Random(f"messages {seed}").random() < 0.25
    )


def plan_of(seed, worker):
    """Returns the plan of a seed. `worker` must be the one for that seed."""
    draw = random.Random(f"fault {seed}")
    steady = draw.randint(5, 25)
    wants_hosts = is_of_messages(seed) and draw.random() < 0.4
    for attempt in range(MOST_TRIES):
        program = seed * MOST_TRIES + attempt
        ranks, start, each, knobs = worker.shown(program, steady)
        if ranks > 1 and (not wants_hosts or start == "dabkerun" and 0 < each < ranks):
            break
    places = []
    if start == "dabkerun":
        start = draw.choices(["processes", "dabkerun"], [75, 25])[0]
    if start == "processes" and 0 < each < ranks and draw.random() < 0.6:
        start = "hosts"
    if start == "dabkerun" and 0 < each < ranks:
        start = "agents"
    if start in ("hosts", "agents"):
        places = [rank // each for rank in range(ranks)]
    operations = " and ".join(
        sorted(
            {
                "/".join(epoch.get(name, "auto") for name in ("CPU_OPERATIONS", "CONTROLLER"))
                for epoch in knobs
            }
        )
    )
    plan = Plan(
        seed,
        program,
        steady,
        ranks,
        start,
        places,
        operations,
        python=is_of_python(seed),
        devices=is_on_devices(seed),
        messages=is_of_messages(seed),
    )
    if plan.messages:
        # Only shared memory has copies that can be staged. MPICH aborts if its own reads are refused.
        is_shared = not re.search(r"\b(tcp|gloo|mpi)/", plan.operations)
        forbids_reads = draw.random() < 0.5
        plan.forbids_reads = forbids_reads and is_shared and plan.start not in ("mpich", "openmpi")
        messages = worker.messages(program, steady)
        for _ in range(draw.choices([1, 2], [85, 15])[0]):
            add_message_fault(draw, plan, messages)
        return plan
    points = worker.points(program, steady)
    for _ in range(draw.choices([1, 2, 3], [70, 20, 10])[0]):
        add_fault(draw, plan, points)
    return plan


def takes_garbage(plan):
    """True if messages use only Dabke's own TCP links: Gloo's connections have no separate messages."""
    ways = plan.operations.split(" and ")
    if plan.start == "hosts":
        return all(way in ("tcp/auto", "tcp/tcp") for way in ways)
    return plan.start == "processes" and all(way in ("tcp/tcp", "shm/tcp") for way in ways)


def times_of(phase, points):
    """The rank's visits to the phase's point that lie in that phase."""
    steps = points["step"]
    if phase == "first steps":
        return range(min(FIRST_STEPS, steps))
    if phase == "steady state":
        return range(FIRST_STEPS, steps)
    return range(points[POINTS[phase]]) if phase in POINTS else range(0)


def add_fault(draw, plan, points):
    rank = draw.randrange(plan.ranks)
    kinds = {"kill": 6, "stop": 6}
    if plan.places:
        kinds |= {"link down and up": 6, "lossy wire": 3}
    if plan.start in ("processes", "dabkerun"):
        kinds |= {"full disk": 1}
    if plan.start == "processes":
        kinds |= {"memory limit": 2, "descriptor limit": 2, "thread limit": 2, "clock step": 2}
    if takes_garbage(plan):
        kinds["garbage"] = 20
    kind = draw.choices(list(kinds), list(kinds.values()))[0]
    if kind in FROM_THE_BEGINNING:
        plan.faults.append(Fault(rank, "throughout", 0, 0, kind, NOTHING))
        return
    if kind == "lossy wire":
        host = plan.places[rank]
        plan.wires[host] = {
            "seed": plan.seed,
            "delay": round(draw.uniform(0, 0.004), 4),
            "jitter": 0.0005,
            "loss": round(draw.uniform(0, 0.02), 3),
            "reorder": round(draw.uniform(0, 0.1), 3),
        }
        plan.faults.append(Fault(rank, "throughout", 0, 0, kind, NOTHING))
        return
    if kind == "garbage":  # before the first step, the garbage lies between two messages
        plan.faults.append(
            Fault(rank, "first steps", 0, 0, kind, FAILURE, "garbage", str(draw.randint(16, 400)))
        )
        return
    # If a rank dies inside MPI's own start, the launcher must handle it; Open MPI's launcher may then wait
    # for ever.
    barred = "init" if kind == "kill" and plan.start in ("mpich", "openmpi") else ""
    phase = draw.choice([phase for phase in PHASES if phase != barred and times_of(phase, points[rank])])
    nth = draw.choice(times_of(phase, points[rank]))
    delay_us = int(10 ** draw.uniform(0, 5 if phase == "init" else 4))
    plan.faults.append(Fault(rank, phase, nth, delay_us, kind, **form_of(draw, plan, rank, kind)))


def add_message_fault(draw, plan, messages):
    kinds = {"kill": 6, "stop and kill": 3, "stop": 4}
    if plan.places:
        kinds |= {"link down and up": 6}
    kind = draw.choices(list(kinds), list(kinds.values()))[0]
    other = moments.MOVING if plan.forbids_reads else moments.STAGED
    left_out = {other}
    if not plan.places and not re.search(r"\b(tcp|mpi)/", plan.operations):
        # In shared memory and over Gloo, a send waits until its receiver takes part.
        left_out.add(moments.HALF_DONE)
    phases = [
        phase for phase in moments.PHASES if phase not in left_out and any(one.has(phase) for one in messages)
    ]
    phase = draw.choice(phases)
    message = draw.choice([one for one in messages if one.has(phase)])
    rank, point, delay_us = moments.aim(draw, phase, message)
    if phase == moments.HALF_DONE:
        # The receiver is stopped after its submission, and before the late sender's.
        stop = {"action": "stop", "argument": "0.2", "seconds": 0.2}
        if kind == "stop and kill":
            rank, point, delay_us = message.receiver, "announced", 10_000
        else:
            plan.faults.append(
                Fault(
                    message.receiver,
                    moments.ANNOUNCED,
                    message.number,
                    10_000,
                    "stop",
                    NOTHING,
                    **stop,
                    point="announced",
                )
            )
    form = form_of(draw, plan, rank, kind)
    plan.faults.append(Fault(rank, phase, message.number, delay_us, kind, **form, point=point))


def form_of(draw, plan, rank, kind):
    """Returns the remaining members of the fault: its action and its possible effect."""
    if kind == "kill":
        return {"effect": DEATH, "action": "kill"}
    if kind == "stop and kill":
        return {
            "effect": DEATH,
            "action": "stop-and-kill",
            "argument": str(STOP_BEFORE_KILL_SECONDS),
            "seconds": STOP_BEFORE_KILL_SECONDS,
        }
    if kind == "memory limit":
        return {
            "effect": DEATH,
            "action": "shell",
            "argument": f"echo {draw.randint(256, 16384)}K > $STORM_MEMORY/memory.limit_in_bytes; "
            "echo $STORM_VICTIM > $STORM_MEMORY/cgroup.procs",
        }
    if kind == "thread limit":
        return {
            "effect": FAILURE,
            "action": "shell",
            "argument": "echo 1 > $STORM_PIDS/pids.max; echo $STORM_VICTIM > $STORM_PIDS/cgroup.procs",
        }
    if kind == "descriptor limit":
        return {"effect": FAILURE, "action": "files", "argument": str(draw.randint(0, 3))}
    if kind == "clock step":
        return {
            "effect": NOTHING,
            "action": "shell",
            "argument": f"echo {draw.choice(['+3600', '-3600', '+86400000', '-7'])} "
            "> $FAKETIME_TIMESTAMP_FILE",
        }
    is_long = bool(plan.places) and draw.random() < 0.4
    if kind == "stop":
        # On one host, a stopped rank is only slow, whatever the time.
        most = SHORT_STOP_SECONDS if plan.places else 2.5
        seconds = LONG_SECONDS if is_long else round(draw.uniform(0.05, most), 2)
        return {
            "effect": SILENCE if is_long else NOTHING,
            "action": "stop",
            "argument": str(seconds),
            "seconds": seconds,
        }
    seconds = LONG_SECONDS if is_long else round(draw.uniform(0.02, SHORT_CUT_SECONDS), 2)
    port = f"ip -n $STORM_SWITCH link set port{plan.places[rank]}"
    return {
        "effect": SILENCE if is_long else NOTHING,
        "action": "shell",
        "seconds": seconds,
        "argument": f"{port} down; sleep {seconds}; {port} up",
    }
