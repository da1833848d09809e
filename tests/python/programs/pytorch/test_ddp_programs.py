"""Programs over the torch.distributed backend: how they start, fail and end."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from conftest import ended

torch = pytest.importorskip("torch")
pytest.importorskip("torch.distributed")

EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "pytorch_ddp_digits.py"
NEWER = hasattr(torch, "compile")
HEAD = """
import os, signal, sys, time
import torch, torch.distributed as dist
import dabke, dabke.distributed

def say(*parts):  # in one piece: torchrun lets its ranks write at the same time
    os.write(1, (' '.join(map(str, parts)) + chr(10)).encode())
"""
SUM = (
    HEAD
    + """
def the_sum():
    tensor = torch.tensor([float(dist.get_rank() + 1)])
    dist.all_reduce(tensor)
    return tensor.item()
"""
)


@pytest.fixture
def torchrun(program):
    """Returns a function that runs the text of a program, or a file, under torchrun."""

    def run_under_torchrun(text, ranks=2, limit=300, arguments=()):
        if not NEWER and sys.version_info >= (3, 11):
            pytest.skip("this torchrun does not work with this Python")
        path = text if isinstance(text, Path) else program(text)
        command = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc_per_node={ranks}",
            path,
            *arguments,
        ]
        return ended(command, limit, {"OMP_NUM_THREADS": "1"})

    return run_under_torchrun


@pytest.mark.skipif(not NEWER, reason="torch before 2.0 has no default for a device")
@pytest.mark.parametrize("way", ["dabke.distributed.use_for_cpu()", ""])
def test_the_cpu_uses_the_backend_by_default_if_the_program_asks_for_it(torchrun, monkeypatch, way):
    if not way:
        monkeypatch.setenv("DABKE_TORCH_CPU_BACKEND", "1")
    done = torchrun(f"{SUM}\n{way}\ndist.init_process_group()\nsay(dist.group.WORLD.name(), the_sum())\n")
    assert done.code == 0, done.output
    assert done.output.count("dabke 3.0") == 2, done.output


def test_under_torchrun_the_job_starts_over_its_store(torchrun):
    done = torchrun(
        SUM
        + """
dist.init_process_group("dabke")
say("sum", the_sum(), dabke.size())
dist.destroy_process_group()
say("running", dabke.is_initialized())
dist.init_process_group("dabke")
say("again", the_sum())
dist.destroy_process_group()
"""
    )
    assert done.code == 0, done.output
    assert done.output.count("sum 3.0 2") == 2 and done.output.count("again 3.0") == 2, done.output


def test_under_dabkerun_no_address_is_needed(run):
    done = run(
        SUM
        + """
assert os.environ["LOCAL_RANK"] == str(dist.get_rank() if dist.is_initialized() else os.environ["DABKE_RANK"])
dist.init_process_group("dabke")
say(the_sum())
dist.destroy_process_group()
say(dabke.is_initialized())
""",
        ranks=3,
    )
    assert done.code == 0, done.output
    # Older versions of torch do not notify a group of its destruction.
    assert done.lines_of(2) == ["6.0", "False" if NEWER else "True"], done.output


def test_processes_that_a_program_spawns(run):
    done = run(
        SUM
        + """
def train(rank, size, file):
    dist.init_process_group("dabke", init_method=f"file://{file}", rank=rank, world_size=size)
    say("sum", the_sum())
    dist.destroy_process_group()

if __name__ == "__main__":
    torch.multiprocessing.spawn(train, args=(2, sys.argv[0] + ".store"), nprocs=2)
""",
        ranks=0,
    )
    assert done.code == 0, done.output
    assert done.output.count("sum 3.0") == 2, done.output


def test_a_job_of_one_in_a_store_of_its_process(run):
    done = run(
        SUM
        + """
from datetime import timedelta
dist.init_process_group("dabke", store=dist.HashStore(), rank=0, world_size=1)
group = dist.new_group([0])
group.monitored_barrier(timedelta(seconds=60))
dist.barrier(group)
say(the_sum())
dist.destroy_process_group()
""",
        ranks=0,
    )
    assert (done.code, done.output.split()[-1]) == (0, "1.0"), done.output


def test_threads_that_use_groups_at_once_in_jobs_that_follow_each_other(run):
    done = run(
        SUM
        + """
import threading

def use(number, group, seen):
    for turn in range(20):
        tensor = torch.full((7,), float(number))
        dist.all_reduce(tensor, group=group)
        dist.barrier(group)
        seen[number] = tensor.eq(2 * number).all().item()

def train(rank, size, file):
    for start in range(2):
        dist.init_process_group("dabke", init_method=f"file://{file}.{start}", rank=rank, world_size=size)
        groups = [dist.new_group() for _ in range(4)]
        seen = [None] * 4
        threads = [threading.Thread(target=use, args=(*each, seen)) for each in enumerate(groups)]
        for thread in threads if rank == 0 else reversed(threads):
            thread.start()
        for thread in threads:
            thread.join()
        if rank == 1:
            time.sleep(1)  # the other rank waits for this one
        dist.destroy_process_group()
        say("start", start, all(seen))

if __name__ == "__main__":
    torch.multiprocessing.spawn(train, args=(2, sys.argv[0] + ".store"), nprocs=2)
""",
        ranks=0,
    )
    assert done.code == 0, done.output
    for start in range(2):
        assert done.output.count(f"start {start} True") == 2, done.output


def test_a_running_job_is_joined_and_stays(run):
    done = run(
        SUM
        + """
dabke.init()
dist.init_process_group("dabke")
say(the_sum())
dist.destroy_process_group()
say(dabke.allreduce(torch.ones(1).numpy(), op=dabke.Sum).tolist())
"""
    )
    assert done.code == 0, done.output
    assert done.lines_of(1) == ["3.0", "[2.0]"], done.output


def test_a_running_job_of_other_ranks_is_refused(run):
    done = run(
        HEAD
        + """
dabke.init()
try:
    dist.init_process_group("dabke", init_method=f"file://{sys.argv[0]}.store", rank=1 - dabke.rank(), world_size=2)
except ValueError as error:
    say(error)
"""
    )
    assert any("in the running job it is rank 1 of 2" in line for line in done.lines_of(1)), done.output


def test_an_address_with_the_port_0_is_that_of_the_job(run):
    # Lightning sets both variables, whatever has started the processes.
    done = run(
        SUM
        + """
os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "dabke-job", "0"
dist.init_process_group("dabke", rank=int(os.environ["RANK"]), world_size=2)
say("sum", the_sum())
"""
    )
    assert [done.lines_of(rank) for rank in (0, 1)] == [["sum 3.0"]] * 2, done.output


@pytest.mark.parametrize(
    "call",
    [
        "dist.all_reduce(torch.ones(4))",
        "dist.barrier()",
        "model(torch.ones(2, 4)).sum().backward()",
        "dist.all_reduce(torch.ones(4), async_op=True).get_future().wait()",
    ],
)
def test_a_rank_that_dies_is_an_error_of_the_others_at_once(call, run):
    done = run(
        HEAD
        + f"""
dist.init_process_group("dabke")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
dist.barrier()
if dist.get_rank() == 1:
    os.kill(os.getpid(), {int(signal.SIGKILL)})
begin = time.monotonic()
try:
    {call}
except RuntimeError as error:
    say("after", time.monotonic() - begin, str(error).replace(chr(10), " "))
    raise
""",
        ranks=3,
        to_the_last=True,
    )
    assert done.code != 0
    for rank in (0, 2):
        line = next((each for each in done.lines_of(rank) if each.startswith("after")), "")
        # The time is about 2 s, but longer on a full machine.
        assert line and float(line.split()[1]) < 10 and "rank 1" in line, done.output


def test_an_uncaught_exception_is_the_first_cause(run):
    done = run(
        HEAD
        + """
dist.init_process_group("dabke")
if dist.get_rank() == 1:
    raise ValueError("the loss is not a number")
dist.all_reduce(torch.ones(3))
"""
    )
    assert done.code != 0 and "ValueError: the loss is not a number (train.py:" in done.output, done.output


@pytest.mark.parametrize(
    "pending",
    [
        "",
        "works = [dist.all_reduce(torch.ones(9), async_op=True).get_future() "
        "for _ in range(40)] if dist.get_rank() == 0 else []",
    ],
    ids=["nothing", "futures"],
)
def test_a_program_ends_without_destroying_its_group(pending, run):
    done = run(
        HEAD
        + f"""
dist.init_process_group("dabke")
group = dist.new_group([0, 1])
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
model(torch.ones(2, 4)).sum().backward()
dist.all_reduce(torch.ones(1), group=group, async_op=True).get_future()
dist.barrier()
{pending}
say("ends", time.monotonic())
"""
    )
    ended_at = time.monotonic()
    assert done.code == 0, done.output
    took = ended_at - max(float(done.lines_of(rank)[-1].removeprefix("ends ")) for rank in (0, 1))
    assert "Traceback" not in done.output and took < 30, done.output


def test_a_group_is_destroyed_while_a_future_of_it_is_pending(run):
    done = run(
        HEAD
        + """
dist.init_process_group("dabke")
group = dist.new_group([0, 1])
if dist.get_rank() == 0:
    future = dist.all_reduce(torch.ones(3), group=group, async_op=True).get_future()
    dist.destroy_process_group(group)
    say(future.done())
dist.barrier()
dist.destroy_process_group()
if dist.is_initialized() or dabke.is_initialized():
    dabke.shutdown()
if "future" in globals():
    try:
        future.wait()
    except RuntimeError as error:
        say("ShutDownError" in str(error), str(error).replace(chr(10), " "))
"""
    )
    assert done.code == 0 and done.lines_of(0)[1].startswith("True"), done.output


@pytest.mark.skipif(not NEWER, reason="this torch does not tell a group that it is destroyed")
def test_a_rank_that_ends_early_waits_for_the_others(run):
    done = run(
        HEAD
        + """
dist.init_process_group("dabke")
group = dist.new_group([1, 2])
if dist.get_rank() > 0:
    for _ in range(200):
        dist.all_reduce(torch.ones(1000), group=group)
dist.destroy_process_group()
say("done")
""",
        ranks=3,
    )
    assert done.code == 0 and done.output.count("done") == 3, done.output


def test_calls_that_differ_are_told_apart_in_detail(run):
    done = run(
        HEAD
        + """
dist.init_process_group("dabke")
for call in (lambda: dist.all_reduce(torch.ones(3 + dist.get_rank())),
             lambda: dist.all_reduce(torch.ones(3)) if dist.get_rank() else dist.broadcast(torch.ones(3), 0)):
    try:
        call()
    except dabke.errors.MismatchError as error:
        say("mismatch", str(error).replace(chr(10), " "))
dist.all_reduce(torch.ones(3))
""",
        env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"},
    )
    assert done.code == 0, done.output
    lines = done.lines_of(0)
    assert len(lines) == 2 and "[3]" in lines[0] and "[4]" in lines[0] and "broadcast" in lines[1], (
        done.output
    )


def test_calls_of_other_shapes_are_a_stall_that_names_them(run):
    done = run(
        HEAD
        + """
os.environ["DABKE_STALL_CHECK_TIME_SECONDS"], os.environ["DABKE_STALL_SHUTDOWN_TIME_SECONDS"] = "1", "12"
dist.init_process_group("dabke")
dist.all_reduce(torch.ones(3 + dist.get_rank()))
"""
    )
    assert done.code != 0 and "c10d/" in done.output and "allreduce.sum/float32/4/0" in done.output, (
        done.output
    )


def test_more_calls_of_one_shape_than_names_in_a_job_that_refuses_equal_names(run):
    done = run(
        HEAD
        + """
dabke.init(settings={"DUPLICATE_NAMES": "error"})
dist.init_process_group("dabke")
tensors = [torch.ones(10) for _ in range(200)]
works = [dist.all_reduce(each, async_op=True) for each in tensors]
[work.wait() for work in works]
say(all(each.eq(2).all() for each in tensors))
"""
    )
    assert done.lines_of(0) == ["True"], done.output


@pytest.mark.skipif(
    not hasattr(torch, "_import_device_backends"), reason="this torch has no entry points for backends"
)
def test_torch_finds_the_backend_by_itself(run, tmp_path):
    info = tmp_path / "entry-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: entry\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\ndabke_here = dabke.autoload:load\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    for first in ("import torch", "import dabke.distributed"):
        done = run(
            f"{first}\n"
            + """
import torch.distributed as dist
dist.init_process_group("dabke")
print(dist.get_world_size())
""",
            env={"PYTHONPATH": path},
        )
        assert done.lines_of(0) == ["2"], done.output


@pytest.mark.parametrize("how", ["torchrun", "dabkerun"])
def test_the_example_learns_the_digits(how, torchrun, run):
    if how == "torchrun":
        done = torchrun(EXAMPLE)
    else:
        done = ended([os.environ["DABKERUN"], "-np", "2", sys.executable, EXAMPLE], 300)
    assert done.code == 0, done.output
    percent = float(done.output.split("accuracy ")[1].split()[0])
    assert percent >= 96, done.output


def test_collectives_show_in_a_profile(run, tmp_path):
    done = run(f'''
        import torch, torch.distributed as dist, dabke.distributed
        from torch.profiler import ProfilerActivity, profile
        dist.init_process_group("dabke")
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            work = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(3)]
            for each in work:
                each.wait()
            dist.broadcast(torch.ones(4), 0)
            dist.barrier()
        profiled.export_chrome_trace(f"{tmp_path}/rank{{dist.get_rank()}}.json")
        dist.destroy_process_group()
    ''')
    assert done.code == 0, done.output
    trace = json.loads((tmp_path / "rank1.json").read_text())  # a list in a PyTorch without Kineto
    names = [event.get("name") for event in (trace["traceEvents"] if isinstance(trace, dict) else trace)]
    for name, count in {"dabke:all_reduce": 3, "dabke:broadcast": 1, "dabke:barrier": 1}.items():
        assert names.count(name) == count, sorted(each for each in names if each and "dabke" in each)
