"""Timelines of Python programs that end in the middle of writing them."""

import json
import os
import signal
import subprocess
import sys

import pytest

RECORDS_ON = """
    import os, resource, signal, dabke, numpy
    dabke.init()
    rank, path = dabke.rank(), os.environ['DABKE_TIMELINE']
    file = path + (f'.rank{rank}' if os.environ['DABKE_TIMELINE_FORMAT'] == 'records' else '')
    def step(number):
        with dabke.annotate('forward'):
            dabke.allreduce(numpy.ones(1000), 'gradient')
        dabke.mark_step(number)
    def has_written():
        return rank == 0 and os.path.exists(file) and os.path.getsize(file) > 200_000
"""


def balance_of(events):
    """The number of events that have begun but not ended, over all rows."""
    open_rows = {}
    for event in events:
        if event["ph"] in "BE":
            open_rows[event["pid"]] = open_rows.get(event["pid"], 0) + (1 if event["ph"] == "B" else -1)
            assert open_rows[event["pid"]] >= 0, event
    return sum(open_rows.values())


def events_of(path):
    trace = json.loads(path.read_text())
    return trace if isinstance(trace, list) else trace["traceEvents"]


@pytest.mark.parametrize("format", ["records", "horovod"])
def test_ctrl_c_amid_writing_leaves_a_timeline_that_loads(program, tmp_path, format):
    file = tmp_path / "trace.json"
    path = program(
        RECORDS_ON
        + """
    number, said = 0, False
    while True:
        step(number)
        number += 1
        if has_written() and not said:
            said = True
            print('writes', flush=True)
"""
    )
    job = subprocess.Popen(
        [os.environ["DABKERUN"], "-np", "2", "--grace-period", "60", sys.executable, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "DABKE_TIMELINE": str(file), "DABKE_TIMELINE_FORMAT": format},
    )
    assert "writes" in job.stdout.readline()
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=300)
    assert job.returncode == 128 + signal.SIGINT
    events = events_of(file)
    assert balance_of(events) == 0
    assert sum(event["name"] == "STEP" for event in events if "name" in event) > 50


def test_a_killed_rank_0_leaves_a_timeline_that_loads(run, tmp_path):
    ended = run(
        RECORDS_ON
        + """
    number = 0
    while True:
        step(number)
        number += 1
        if has_written():
            os.kill(os.getpid(), signal.SIGKILL)
""",
        to_the_last=True,
        env={"DABKE_TIMELINE": str(tmp_path / "trace.json"), "DABKE_TIMELINE_FORMAT": "records"},
    )
    assert ended.code == 128 + signal.SIGKILL, ended.output
    assert f"dabkerun: timeline: rank 0: '{tmp_path}/trace.json.rank0' was" in ended.output
    events = events_of(tmp_path / "trace.json")
    assert [event["pid"] for event in events if event["name"] == "TAIL_MISSING"] == [0]


@pytest.mark.parametrize("format", ["records", "horovod"])
def test_a_full_disk_fails_no_job_and_leaves_a_timeline_that_loads(run, tmp_path, format):
    ended = run(
        RECORDS_ON
        + """
    step(0)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    for number in range(1, 1000):
        step(number)
    dabke.shutdown()
    print('done')
""",
        env={
            "DABKE_TIMELINE": str(tmp_path / "trace.json"),
            "DABKE_TIMELINE_FORMAT": format,
            "DABKE_CONTROLLER": "tcp",
            "DABKE_CPU_OPERATIONS": "tcp",
        },
    )
    assert ended.code == 0, ended.output
    assert [ended.lines_of(rank) for rank in range(2)] == [["done"], ["done"]]
    assert ended.output.count("training continues") == (2 if format == "records" else 1), ended.output
    assert "killed" not in ended.output
    assert balance_of(events_of(tmp_path / "trace.json")) == 0
