"""A training with Dabke's timeline and PyTorch's profiler at once, and the report on both together."""

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest
from conftest import ended

torch = pytest.importorskip("torch")
pytest.importorskip("torch.distributed")
profiler = pytest.importorskip("torch.profiler")

if not profiler.kineto_available():
    pytest.skip("needs a PyTorch with Kineto", allow_module_level=True)

HAS_NAMED_VALUES = importlib.util.find_spec("torch.distributed.flight_recorder") is not None
STEPS = 6
LATE_SECONDS = 0.15
TRAIN = f"""
import sys, time
import torch, torch.distributed as dist
import dabke.distributed
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule

dist.init_process_group("dabke")
rank = dist.get_rank()
torch.set_num_threads(1)
layers = [layer for _ in range(4) for layer in (torch.nn.Linear(256, 256), torch.nn.ReLU())]
model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def export(done):
    done.export_chrome_trace(f"{{sys.argv[1]}}/profile.rank{{rank}}.json")

with profile(
    activities=[ProfilerActivity.CPU],
    record_shapes=True,
    schedule=schedule(wait=1, warmup=1, active={STEPS}),
    on_trace_ready=export,
) as profiled:
    for step in range({STEPS} + 2):
        if rank == 1:
            time.sleep({LATE_SECONDS})
        optimizer.zero_grad()
        model(torch.randn(32, 256)).square().mean().backward()
        optimizer.step()
        profiled.step()
dist.destroy_process_group()
"""
PARAMETER_BYTES = 4 * 4 * (256 * 256 + 256)


def tool(*arguments):
    return ended(
        [Path(os.environ["DABKERUN"]).parents[1] / "timeline_viewer/dabke-timeline", *arguments], 120
    )


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """The files of one training: Dabke's trace, and the profiles of both ranks."""
    folder = tmp_path_factory.mktemp("traces")
    (folder / "train.py").write_text(TRAIN)
    job = [os.environ["DABKERUN"], "-np", "2", "--timeline-filename", folder / "trace.json"]
    done = ended([*job, sys.executable, folder / "train.py", folder], 300)
    assert done.code == 0, done.output
    return [folder / name for name in ("trace.json", "profile.rank0.json", "profile.rank1.json")]


def test_a_report_has_what_each_rank_communicates_and_hides_in_each_step(traces):
    done = tool("report", "--json", *traces)
    assert done.code == 0, done.output
    report = json.loads(done.output)
    assert report["ranks"] == report["profiled"]["ranks"] == [0, 1]
    overlap = report["profiled"]["overlap"]
    steps = sorted({each["step"] for each in overlap})
    assert steps == [step["step"] for step in report["steps"]]
    # On a busy machine, one profile may begin or end a part of a step before the other.
    assert STEPS - 2 <= len(steps) <= STEPS and len(overlap) == 2 * len(steps), steps
    for each in overlap:
        assert each["bytes"] == PARAMETER_BYTES, each
        assert each["bus_bandwidth_mb_s"] > 0, each
        assert 0 <= each["hidden_us"] <= each["communication_us"] + 1, each
        assert each["communication_us"] - each["hidden_us"] <= each["exposed_us"] + 1, each
        assert each["late_us"] <= each["exposed_us"] + 1, each


def test_the_report_names_the_late_rank_from_the_trace_by_the_waiting_in_the_profile(traces):
    done = tool("report", "--json", *traces)
    assert done.code == 0, done.output
    report = json.loads(done.output)
    waits = [each["late_us"] for each in report["profiled"]["overlap"] if each["rank"] == 0]
    # Rank 1 sleeps before it computes. The clocks of trace and profile are equal to well below that.
    assert sorted(waits)[len(waits) // 2] > 0.5e6 * LATE_SECONDS, waits
    assert report["cost"][0]["rank"] == 1, report["cost"]


def test_the_report_as_text_has_the_comparison(traces):
    done = tool("report", *traces)
    assert done.code == 0, done.output
    for heading in ("Communication and computation of each rank", "The most exposed steps"):
        assert heading in done.output


def test_a_profile_of_an_earlier_run_is_refused_by_name(traces, tmp_path):
    trace, profile, _ = traces
    earlier = json.loads(profile.read_text())
    earlier["baseTimeNanoseconds"] -= 3600 * 10**9
    file = tmp_path / "earlier.json"
    file.write_text(json.dumps(earlier))
    done = tool("report", trace, file)
    assert done.code == 1
    assert f"'{file}' and '{trace}' were not recorded at the same time" in done.output


def test_records_must_be_merged_before_they_are_joined_with_profiles(traces):
    trace, profile, _ = traces
    done = tool("report", f"{trace}.rank0", profile)
    assert done.code == 1
    assert f"with 'dabke-timeline merge {trace}'" in done.output


@pytest.mark.skipif(not HAS_NAMED_VALUES, reason="needs named values in the profiler")
def test_a_profile_alone_has_the_bytes_of_its_calls(traces):
    done = tool("report", "--json", traces[1])
    assert done.code == 0, done.output
    calls = {each["name"]: each for each in json.loads(done.output)["tensors"]}
    assert 0 < calls["dabke:all_reduce"]["bytes"] <= PARAMETER_BYTES, calls
