"""The random plan of an elastic job: its hosts, its size, and what happens to it when."""

import random
from dataclasses import dataclass, field

PHASES = ("init", "sync", "commit", "next")


@dataclass
class Event:
    """Something that the harness does once the job has begun the step.

    kind: kill (ranks), stop (a rank, for seconds), slots (of the hosts), discovery-fails, discovery-hangs,
        lose-host (all processes of hosts[0]), cut (the wire between two hosts, for seconds)
    """

    step: int
    kind: str
    ranks: list[int] = field(default_factory=list)
    seconds: float = 0
    slots: list[int] = field(default_factory=list)
    hosts: list[int] = field(default_factory=list)


@dataclass
class Plan:
    seed: int
    hosts: int
    slots: list[int]  # by host, at the start
    np: int
    min_np: int
    max_np: int
    spares: int
    steps: int
    samples: int
    pause: float
    peer_timeout: float
    discovers: bool
    events: list[Event]
    deaths: dict[str, tuple[str, int, float]]  # by worker number


def make(seed, most_hosts=1, most_ranks=6):
    chance = random.Random(seed)
    hosts = chance.randint(1, most_hosts)
    ranks = chance.randint(max(2, hosts), most_ranks)
    if (
        hosts == 1 and random.Random(f"alone {seed}").random() < 0.1
    ):  # other plans are as they would be without
        ranks = 1
    slots = [1 + (ranks - hosts + host) // hosts for host in range(hosts)]
    plan = Plan(
        seed=seed,
        hosts=hosts,
        slots=slots,
        np=sum(slots),
        min_np=1,
        max_np=sum(slots) + chance.choice((0, 0, 1)),
        spares=chance.choice((0, 0, 0, 1)),
        steps=chance.randint(30, 60),
        samples=chance.randint(20, 60),
        pause=chance.choice((0.01, 0.02, 0.03)),
        peer_timeout=1.0,
        discovers=chance.random() < 0.6,
        events=[],
        deaths={},
    )
    if plan.spares or plan.max_np > plan.np:
        plan.slots = [each + 1 for each in plan.slots]
    step = 0
    for _ in range(chance.randint(1, 4)):
        step += chance.randint(2, 12)
        if step < plan.steps - 5:
            plan.events.append(_event(chance, plan, step))
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        worker = chance.randrange(plan.np + 2)
        phase = chance.choice(PHASES)
        visit = chance.randint(1, 15) if phase == "commit" else chance.randint(1, 2)
        plan.deaths[str(worker)] = (phase, visit, chance.choice((0, 0.001, 0.003, 0.01, 0.03)))
    return plan


def _event(chance, plan, step):
    kinds = ["kill", "kill", "kill-several", "stop-shortly", "stop-long"]
    if plan.discovers:
        kinds += ["slots", "slots", "discovery-fails", "discovery-hangs"]
    if plan.hosts > 1:
        kinds += ["lose-host", "lose-host", "cut"]
    kind = chance.choice(kinds)
    if kind == "kill":
        return Event(step, "kill", ranks=[chance.choice((0, chance.randrange(plan.np)))])
    if kind == "kill-several":
        return Event(
            step, "kill", ranks=chance.sample(range(plan.np), chance.randint(1, max(1, plan.np - 1)))
        )
    if kind.startswith("stop"):
        seconds = plan.peer_timeout * (0.3 if kind == "stop-shortly" else 2)
        return Event(step, "stop", ranks=[chance.randrange(plan.np)], seconds=seconds)
    if kind == "lose-host":
        return Event(step, kind, hosts=[chance.randrange(plan.hosts)])
    if kind == "cut":
        return Event(step, kind, hosts=chance.sample(range(plan.hosts), 2), seconds=chance.choice((0.3, 2.0)))
    if kind == "slots":
        slots = [max(0, each + chance.choice((-1, -1, 0, 1))) for each in plan.slots]
        if sum(slots) == 0:
            slots[0] = 1
        return Event(step, "slots", slots=slots)
    return Event(step, kind, seconds=1.5)
