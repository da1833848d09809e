"""The ways to run several ranks on one GPU, which NCCL refuses without special settings, and the commands for
them."""

import os
from dataclasses import dataclass, field

KILL_AFTER_SECONDS = 10
MULTI_RANK_VERSION = 23000  # from NCCL 2.30 on several ranks may share a GPU
RANKS_OF_HOST = 2  # on each made-up host


@dataclass
class Way:
    name: str
    environment: dict = field(default_factory=dict)
    of_rank: str = ""  # commands of each rank's shell before it starts the program
    must_work: bool = True


def limited_to(seconds, program):
    return ["timeout", "-k", str(KILL_AFTER_SECONDS), str(seconds), *program]


def on_ranks(machine, ranks, program, way=Way("alone")):
    """Returns the command of a job; each rank has a time limit of its own."""
    limited = limited_to(machine.seconds, program)
    if way.of_rank:
        limited = ["sh", "-c", f'{way.of_rank}\nexec "$@"', "rank", *limited]
    return [machine.program("dabkerun"), "-np", str(ranks), "--bind-to", "none", *limited]


def ways_of(machine, ranks):
    """Returns the ways in which NCCL moves the data."""
    one = (
        {}
        if machine.is_double
        else {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]}
    )
    is_new = machine.nccl_version >= MULTI_RANK_VERSION
    several = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", **({"NCCL_MAX_CTAS": "4"} if ranks > 2 else {})}
    # Each rank pretends to have a host of its own, so that NCCL uses sockets.
    loopback = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple", "NCCL_SOCKET_IFNAME": "lo"}
    apart = "export NCCL_HOSTID=dabke-gpu-$DABKE_RANK"
    ways = [
        Way("on one GPU, NCCL_MULTI_RANK_GPU_ENABLE=1", {**one, **several}, must_work=is_new),
        Way("on one GPU, a NCCL_HOSTID each", {**one, **loopback}, apart, must_work=not is_new),
    ]
    if machine.devices >= ranks:
        ways.insert(0, Way("a GPU each"))
    return ways


def way_that_works(machine, ranks):
    return next(way for way in ways_of(machine, ranks) if way.must_work)


def ways_by_host(machine, ranks):
    """Returns the ways in which the host takes part: through the host, and between made-up hosts with two
    ranks each."""
    inside = way_that_works(machine, RANKS_OF_HOST)
    through = Way("DABKE_GPU_OPERATIONS=host", {**inside.environment, "DABKE_GPU_OPERATIONS": "host"})
    if ranks <= RANKS_OF_HOST:
        return [through]
    placement = [
        f"{vendor}_{name}"
        for vendor in ("DABKE", "HOROVOD")
        for name in ("LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")
    ]
    host = "\n".join(
        [
            "unset " + " ".join(placement),
            f"export DABKE_HOSTNAME=made-up-$((DABKE_RANK / {RANKS_OF_HOST}))",
            inside.of_rank,
        ]
    )
    return [
        through,
        Way(
            f"DABKE_GPU_OPERATIONS=hierarchical, {RANKS_OF_HOST} ranks on a host, {inside.name}",
            {**inside.environment, "DABKE_GPU_OPERATIONS": "hierarchical"},
            host,
        ),
    ]
