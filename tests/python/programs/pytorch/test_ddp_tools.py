"""PyTorch's own tools with the torch.distributed backend: the flight recorder, and parameters in profiles."""

import importlib.util
import json
import pickle
import sys

import pytest
from conftest import ended

torch = pytest.importorskip("torch")
pytest.importorskip("torch.distributed")

HAS_TOOL = importlib.util.find_spec("torch.distributed.flight_recorder") is not None
HEAD = """
import datetime, os, signal, sys, time
import torch, torch.distributed as dist
import dabke.distributed

seconds = float(os.environ.get("SECONDS", "60"))
dist.init_process_group("dabke", timeout=datetime.timedelta(seconds=seconds))
rank, size = dist.get_rank(), dist.get_world_size()
tensor = torch.ones(4, 3)
"""


@pytest.fixture
def dumps(tmp_path, monkeypatch):
    """The folder to which the ranks write, with no other file."""
    folder = tmp_path / "dumps"
    folder.mkdir()
    monkeypatch.setenv("TORCH_FR_DUMP_TEMP_FILE", f"{folder}/rank_")
    return folder


def analysis(folder):
    """The text of PyTorch's own analysis of the dumps."""
    if not HAS_TOOL:
        pytest.skip("this PyTorch has no tool that reads the dumps")
    done = ended([sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", folder], 120)
    assert done.code == 0, done.output
    return done.output


def content(folder, rank):
    return pickle.loads((folder / f"rank_{rank}").read_bytes())


def calls(folder, rank):
    return [
        (each["profiling_name"], each["collective_seq_id"], each["state"])
        for each in content(folder, rank)["entries"]
        if not each["is_p2p"]
    ]


FAILS = (
    HEAD
    + """
dist.all_reduce(tensor)
try:
    {0}
except Exception as error:
    print(type(error).__name__, flush=True)
"""
)


@pytest.mark.parametrize(
    ("of_rank_0", "of_rank_1", "finding"),
    [
        ("all_reduce(tensor)", "broadcast(tensor, 0)", "COLLECTIVE_TYPE_MISMATCH"),
        ("all_reduce(tensor)", "all_reduce(torch.ones(5))", "SIZE_OR_SYNTAX_MISMATCH"),
        ("broadcast(tensor, 0)", "broadcast(tensor.int(), 0)", "COLLECTIVE_DTYPE_MISMATCH"),
    ],
)
def test_the_tool_names_the_call_in_which_ranks_differ(run, dumps, of_rank_0, of_rank_1, finding):
    done = run(FAILS.format(f"dist.{of_rank_0} if rank == 0 else dist.{of_rank_1}"))
    assert done.output.count("MismatchError") >= 2, done.output
    assert done.output.count(f"the last calls of the process groups are in {dumps}/rank_") == 2, done.output
    for rank, call in enumerate((of_rank_0, of_rank_1)):
        name = f"gloo:{call.split('(')[0]}"
        assert calls(dumps, rank) == [("gloo:all_reduce", 1, "completed"), (name, 2, "scheduled")]
    text = analysis(dumps)
    assert "Collective sequence number: 2 has errors" in text and finding in text, text
    assert "Culprit rank" in text and "train.py:" in text, text


def test_the_tool_names_the_rank_that_is_late(run, dumps):
    done = run(
        FAILS.format("""
    if rank == 1:
        dabke.distributed.dump_flight_recorder()
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.01)
    else:
        dist.all_reduce(tensor)"""),
        arguments=(dumps / "rank_0",),
        env={"SECONDS": "1"},
    )
    assert "StillPendingError" in done.output, done.output
    text = analysis(dumps)
    assert "Not all ranks joining collective, sequence number: 2" in text, text
    assert "missing ranks: {1}" in text, text


def test_a_signal_handler_can_dump_while_a_call_waits(run, dumps):
    done = run(
        HEAD
        + """
dist.all_reduce(tensor)
if rank == 1:
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
else:
    signal.signal(signal.SIGALRM, lambda *_: dabke.distributed.dump_flight_recorder())
    signal.setitimer(signal.ITIMER_REAL, 0.5)
dist.all_reduce(tensor)
print(tensor[0, 0].item())
""",
        arguments=(dumps / "rank_0",),
    )
    assert done.code == 0, done.output
    assert [done.lines_of(rank) for rank in (0, 1)] == [["4.0"], ["4.0"]], done.output
    assert calls(dumps, 0) == [("gloo:all_reduce", 1, "completed"), ("gloo:all_reduce", 2, "scheduled")]


EVERY_CALL = (
    HEAD
    + """
parts = [torch.zeros(4, 3) for _ in range(size)]
rows = torch.zeros(4 * size, 3)
uneven = [torch.zeros(n + 1) for n in range(size)]
dist.all_reduce(tensor)
dist.broadcast(tensor, 0)
dist.reduce(tensor, 0)
dist.all_gather(parts, tensor)
dist.all_gather(uneven, torch.zeros(rank + 1))
dist._all_gather_base(rows, tensor)
dist.reduce_scatter(torch.zeros(4, 3), parts)
dist.reduce_scatter(torch.zeros(rank + 1), uneven)
dist._reduce_scatter_base(tensor, rows)
dist.all_to_all(parts, [each.clone() for each in parts])
dist.all_to_all_single(torch.zeros(size), torch.zeros(size))
dist.gather(tensor, parts if rank == 0 else None, dst=0)
dist.scatter(tensor, parts if rank == 0 else None, src=0)
dist.all_reduce_coalesced([tensor, torch.ones(2)])
dist.barrier()
dist.all_gather_object([None] * size, rank)
group = dist.new_group([0, 2])
if rank == 1:
    dist.send(tensor, 2)
    dist.recv(tensor, 2, tag=7)
    dist.send(tensor, 0)
elif rank == 2:
    dist.recv(tensor.view(-1), 1)
    dist.send(tensor, 1, tag=7)
else:
    dist.recv(tensor)
if rank != 1:
    dist.all_reduce(tensor, group=group)
    sent = dist.isend(tensor, 2 - rank, group=group)
    dist.recv(torch.zeros(4, 3), 2 - rank, group=group)
    sent.wait()
dist.barrier()
print(dabke.distributed.dump_flight_recorder(sys.argv[1]))
dist.barrier()
"""
)


EXPECTED = """
    all_reduce broadcast reduce all_gather all_gather_v _all_gather_base reduce_scatter reduce_scatter_v
    _reduce_scatter_base all_to_all all_to_all gather scatter allreduce_coalesced barrier
"""


def test_every_call_of_equal_ranks_is_matched(run, dumps):
    done = run(EVERY_CALL, ranks=3, arguments=(dumps / "rank_",))
    assert done.code == 0, done.output
    assert done.lines_of(2) == [f"{dumps}/rank_2"], done.output
    entries = content(dumps, 2)["entries"]
    names = [each["profiling_name"].removeprefix("gloo:") for each in entries]
    assert names[:15] == EXPECTED.split(), names
    assert all(each["state"] == "completed" and each["retired"] for each in entries), entries
    assert entries[3]["output_sizes"] == [[3, 4, 3]] and entries[3]["input_dtypes"] == ["Float"]
    ranks = {name: each["ranks"] for name, each in content(dumps, 2)["pg_config"].items()}
    assert ranks["0"] == "[0, 1, 2]" and ranks["0/messages 1-2"] == "[1, 2]", ranks
    text = analysis(dumps)
    for fault in ("errors", "Not all ranks", "mismatch", "ERROR"):
        assert fault not in text, text


@pytest.mark.parametrize("size", [0, 3])
def test_the_variable_sets_the_number_of_kept_calls(run, dumps, size):
    done = run(
        HEAD
        + """
for _ in range(40):
    dist.all_reduce(tensor)
dabke.distributed.dump_flight_recorder()
""",
        env={"TORCH_FR_BUFFER_SIZE": str(size)},
    )
    assert done.code == 0, done.output
    kept = [("gloo:all_reduce", 41 - left, "completed") for left in range(size, 0, -1)]
    assert calls(dumps, 0) == kept and calls(dumps, 1) == kept


def test_a_new_world_begins_anew_and_calls_have_the_line_of_the_program(run, dumps):
    done = run(
        """
import torch, torch.distributed as dist
import dabke, dabke.distributed
dabke.init()
dist.init_process_group("dabke")
for _ in range(3):
    dist.barrier()
dist.destroy_process_group()
dist.init_process_group("dabke")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 3))
loss = model(torch.ones(2, 3)).sum()
loss.backward()  # line 12
dabke.distributed.dump_flight_recorder()
"""
    )
    assert done.code == 0, done.output
    for rank in (0, 1):
        entries = content(dumps, rank)["entries"]
        assert "gloo:barrier" not in [each["profiling_name"] for each in entries], entries
        last = entries[-1]
        assert (last["profiling_name"], last["input_sizes"]) == ("gloo:all_reduce", [[12]]), last
        assert [(each["line"], each["filename"][-8:]) for each in last["frames"]] == [(12, "train.py")], last


def test_failures_dump_only_if_they_may(run, dumps):
    done = run(
        FAILS.format("dist.barrier() if rank else dist.all_reduce(tensor)"),
        env={"TORCH_NCCL_DUMP_ON_TIMEOUT": "0"},
    )
    assert done.output.count("MismatchError") >= 2, done.output
    assert list(dumps.iterdir()) == []


@pytest.mark.skipif(not HAS_TOOL, reason="needs named values in the profiler")
def test_a_profile_has_the_parameters_of_calls(run, tmp_path):
    done = run(
        HEAD
        + """
from torch.profiler import ProfilerActivity, profile
group = dist.new_group([1, 0], group_desc="pair")
with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
    dist.all_reduce(tensor)
    dist.all_gather([torch.zeros(5).half() for _ in range(size)], torch.zeros(5).half(), group=group)
    if rank == 0:
        dist.send(tensor, 1)
    else:
        dist.recv(tensor, 0)
profiled.export_chrome_trace(f"{sys.argv[1]}/profile{rank}.json")
dist.barrier()
""",
        arguments=(tmp_path,),
    )
    assert done.code == 0, done.output
    events = json.loads((tmp_path / "profile1.json").read_text())["traceEvents"]
    found = [each["args"] for each in events if each.get("name") == "c10d::dabke_param_comms"]
    keys = [
        "Collective name",
        "Seq",
        "dtype",
        "In msg nelems",
        "Out msg nelems",
        "In msg bytes",
        "Out msg bytes",
    ]
    assert [[each[key] for key in keys] for each in found] == [
        ["allreduce", 1, "Float", 12, 12, 48, 48],
        ["allgather", 1, "Half", 5, 10, 10, 20],
        ["recv", 1, "Float", 0, 12, 0, 48],
    ]
    assert [each["Process Group Description"] for each in found] == ["default_pg", "pair", "default_pg"]
    assert found[1]["Process Group Ranks"] == "[0, 1]" and found[1]["Group size"] == 2
    assert found[2]["Src Rank"] == 0 and found[2]["Rank"] == 1
