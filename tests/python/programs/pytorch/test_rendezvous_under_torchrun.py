"""Jobs that torchrun starts and restarts: keys that an earlier try has left in the store mislead no rank."""

import os
import socket
import subprocess
import sys
import threading
import time

import pytest
from conftest import ended

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")
NEWER = hasattr(torch, "compile")
pytestmark = pytest.mark.skipif(
    not NEWER and sys.version_info >= (3, 11), reason="this torchrun does not work with this Python"
)

HEAD = """
import os, sys
import torch, torch.distributed as dist

rank, again = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])

def say(*parts):  # in one piece: torchrun lets its ranks write at the same time
    os.write(1, (' '.join(map(str, parts)) + chr(10)).encode())
"""
TORCH_JOB = (
    HEAD
    + """
import dabke.torch as hvd

def start():
    hvd.init()

def total():
    return hvd.allreduce(torch.tensor([float(rank + 1)]), op=hvd.Sum).item(), hvd.size()

def end():
    hvd.shutdown()
"""
)
DISTRIBUTED_JOB = (
    HEAD
    + """
import dabke.distributed

def start():
    dist.init_process_group("dabke")

def total():
    tensor = torch.tensor([float(rank + 1)])
    dist.all_reduce(tensor, group=dist.new_group([0, 1]))
    return tensor.item(), dist.get_world_size()

def end():
    dist.destroy_process_group()
"""
)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def torchrun(path, *arguments):
    return [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", *arguments, str(path)]


@pytest.mark.parametrize(
    "job, death, who",
    [
        (TORCH_JOB, "before init", 0),
        (TORCH_JOB, "amid a collective", 1),
        (DISTRIBUTED_JOB, "before init", 1),
        (DISTRIBUTED_JOB, "after init", 0),
    ],
    ids=["torch-before", "torch-amid", "distributed-before", "distributed-after"],
)
def test_a_try_that_follows_a_death_meets_anew(program, job, death, who):
    path = program(
        job
        + f"""
dies = rank == {who} and again < 2
if dies and {death == "before init"}:
    os._exit(3)
start()
if dies and {death == "after init"}:
    os._exit(3)
if not dies or again == 0 or {death != "amid a collective"}:
    try:
        seen = total()
    except Exception as error:
        say("failed", type(error).__name__)
        os._exit(4)
if dies:
    os._exit(3)
say("try", again, "sum", *seen)
end()
"""
    )
    done = ended(
        torchrun(path, "--standalone", "--max-restarts=2", "--monitor-interval=0.1"),
        240,
        {"OMP_NUM_THREADS": "1"},
    )
    assert done.code == 0, done.output
    assert done.output.count("try 2 sum 3.0 2") == 2, done.output


@pytest.mark.parametrize("job", [TORCH_JOB, DISTRIBUTED_JOB], ids=["dabke.torch", "torch.distributed"])
def test_thirty_jobs_one_after_the_other_in_one_process(program, job):
    path = program(
        job
        + """
for round in range(30):
    start()
    assert total() == (3.0, 2), round
    end()
say("all thirty")
"""
    )
    done = ended(torchrun(path, "--standalone"), 240, {"OMP_NUM_THREADS": "1"})
    assert done.code == 0, done.output
    assert done.output.count("all thirty") == 2, done.output


@pytest.mark.parametrize("nodes", ["2", "1:2"])
def test_two_agents_of_which_one_has_started_its_processes_more_often(nodes, program):
    path = program(
        DISTRIBUTED_JOB
        + """
marker = sys.argv[0] + ".died"
if rank == 2 and not os.path.exists(marker):
    open(marker, "w").close()
    os._exit(3)
start()
tensor = torch.tensor([float(rank + 1)])
dist.all_reduce(tensor)
say("try", again, "sum", tensor.item())
end()
"""
    )
    port = free_port()
    arguments = [
        f"--nnodes={nodes}",
        "--max-restarts=3",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint=127.0.0.1:{port}",
        "--rdzv-id=two-agents",
        "--local-addr=127.0.0.1",
        "--monitor-interval=0.1",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    agents = [
        subprocess.Popen(
            torchrun(path, *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        outputs = [agent.communicate(timeout=240)[0] for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
    assert [agent.returncode for agent in agents] == [0, 0], outputs
    assert "".join(outputs).count("sum 10.0") == 4, outputs


def meet(store, size, newest):
    """Runs the members of one meeting, one thread each. Returns what each member gathered, or its error."""
    from dabke._bootstrap.store_rendezvous import StoreRendezvous

    seen = [None] * size

    def member(number):
        try:
            meeting = StoreRendezvous(store, number, size, 60)
            seen[number] = meeting.gather("step", f"{newest} {number}".encode())
        except Exception as error:
            seen[number] = error

    threads = [threading.Thread(target=member, args=(number,)) for number in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


@pytest.mark.parametrize("gone", [[0], [1], [2], [0, 1], [1, 2], [0, 1, 2]])
def test_members_that_are_gone_are_not_met(gone):
    from dabke.errors import TimedOutError
    from dabke._bootstrap.store_rendezvous import StoreRendezvous

    store = dist.HashStore()
    for attempt in range(3):
        for number in gone:  # arrives, and is gone before the others arrive
            if len(gone) < 3 or number == 0:
                with pytest.raises(TimedOutError, match=f"this is member {number} of 3"):
                    StoreRendezvous(store, number, 3, 0.01)
            else:
                store.add(f"dabke/rendezvous/arrivals/{number}", 1)
        wanted = [f"{attempt} {number}".encode() for number in range(3)]
        assert meet(store, 3, attempt) == [wanted] * 3


def test_a_member_that_was_answered_by_one_that_is_gone_hears_the_next():
    from dabke.errors import TimedOutError
    from dabke._bootstrap.store_rendezvous import StoreRendezvous

    store = dist.HashStore()
    seen = []
    late = threading.Thread(
        target=lambda: seen.append(StoreRendezvous(store, 1, 3, 60).gather("step", b"one"))
    )
    late.start()
    while int(store.add("dabke/rendezvous/arrivals/1", 0)) == 0:
        pass
    with pytest.raises(TimedOutError, match=r"members \[2\] did not come to the store within 0.5 s"):
        StoreRendezvous(store, 0, 3, 0.5)  # answers member 1 and is gone
    others = [
        threading.Thread(
            target=lambda n=n: seen.append(StoreRendezvous(store, n, 3, 60).gather("step", b"%d" % n))
        )
        for n in (0, 2)
    ]
    for thread in [*others]:
        thread.start()
    for thread in [late, *others]:
        thread.join()
    assert seen == [[b"0", b"one", b"2"]] * 3


def test_numpy_alone_under_torchrun_is_told_what_to_write(program):
    path = program("import dabke\ndabke.init()\n")
    done = ended(torchrun(path, "--standalone"), 120, {"OMP_NUM_THREADS": "1"})
    assert done.code != 0
    assert "call dabke.torch.init(), which uses the rendezvous of torch.distributed" in done.output, (
        done.output
    )


def test_the_variables_of_env_alone_tell_a_job(program):
    path = program("""
import torch, dabke.torch as hvd
hvd.init()
print("sum", hvd.allreduce(torch.ones(1), op=hvd.Sum).item(), hvd.rank(), flush=True)
""")
    port = free_port()
    ranks = [
        subprocess.Popen(
            [sys.executable, str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": "3",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "OMP_NUM_THREADS": "1",
            },
        )
        for rank in range(3)
    ]
    try:
        outputs = [one.communicate(timeout=120)[0] for one in ranks]
    finally:
        for one in ranks:
            one.kill()
    assert [f"sum 3.0 {rank}" in outputs[rank] for rank in range(3)] == [True] * 3, outputs


def test_the_start_timeout_holds_for_the_store_too(program):
    path = program("import dabke.torch as hvd\nhvd.init()\n")
    environment = {
        "RANK": "0",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "DABKE_START_TIMEOUT_SECONDS": "2",
    }
    begin = time.monotonic()
    done = ended([sys.executable, path], 120, environment)
    assert done.code != 0 and time.monotonic() - begin < 60, done.output
    assert "1/2 clients joined" in done.output, done.output  # torch's message about its own store
