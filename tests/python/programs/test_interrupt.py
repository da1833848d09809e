"""Ctrl-C ends a wait that hangs."""

import os
import signal
import subprocess
import sys
import time

import pytest

HANGS = """
    import os, signal, sys, threading, time
    import dabke, numpy
    dabke.init()
    if dabke.rank() == 0:
        # Once the main thread is in a call of the package, where it can only wait.
        def interrupt():
            main = threading.main_thread().ident
            while not sys._current_frames()[main].f_code.co_filename.endswith(("collectives.py", "barriers.py", "handles.py")):
                os.sched_yield()
            global begin
            begin = time.monotonic()
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            {call}
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - begin < 1, flush=True)
        {then}
    else:
        dabke.allreduce(numpy.ones(1), "the end")
"""


@pytest.mark.parametrize(
    "call",
    [
        'dabke.allreduce(numpy.ones(3), "hangs")',
        "dabke.barrier()",
        'dabke.synchronize(dabke.allgather_async(numpy.ones(3), "hangs"))',
    ],
)
def test_ctrl_c_ends_a_hung_wait_within_a_second_and_the_job_goes_on(run, call):
    for _ in range(5):  # a busy machine may itself take longer, but not each time
        done = run(HANGS.format(call=call, then='dabke.allreduce(numpy.ones(1), "the end")'))
        assert done.code == 0, done.output
        if "interrupted True" in done.lines_of(0):
            break
    assert "interrupted True" in done.lines_of(0), done.output


def test_a_handler_of_the_program_runs_while_it_waits(run):
    done = run("""
        import os, signal, threading, dabke, numpy
        dabke.init()
        class Stop(Exception):
            pass
        def stop(*_):
            raise Stop
        signal.signal(signal.SIGUSR1, stop)
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
        if dabke.rank() == 0:
            try:
                timer.start()
                dabke.allreduce(numpy.ones(1), "hangs")
            except Stop:
                print("stopped")
        dabke.allreduce(numpy.ones(1), "the end")
    """)
    assert done.lines_of(0) == ["stopped"], done.output
    assert done.code == 0


def test_ctrl_c_at_the_terminal_ends_the_job(program):
    path = program("""
        import dabke, numpy, os
        dabke.init()
        print("waits", flush=True)
        dabke.allreduce(numpy.ones(1), f"never {dabke.rank()}")
    """)
    job = subprocess.Popen(
        [os.environ["DABKERUN"], "-np", "2", sys.executable, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    for _ in range(2):
        assert "waits" in job.stdout.readline()
    job.send_signal(signal.SIGINT)
    output, _ = job.communicate(timeout=300)
    assert job.returncode != 0


@pytest.mark.parametrize("rank", [0, 1])
def test_ctrl_c_ends_an_init_that_waits_for_a_rank_that_is_missing_within_2_s(program, tmp_path, rank):
    path = program("""
        import dabke
        try:
            dabke.init()
        except KeyboardInterrupt:
            print("interrupted", dabke.is_initialized(), flush=True)
            raise
    """)
    for turn in range(5):  # a busy machine may itself take longer, but not each time
        meeting = tmp_path / f"meeting {turn}"
        meeting.mkdir()
        job = subprocess.Popen(
            [sys.executable, path],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "DABKE_RANK": str(rank),
                "DABKE_SIZE": "2",
                "DABKE_RENDEZVOUS": f"file:{meeting}",
                "DABKE_START_TIMEOUT_SECONDS": "600",
            },
        )
        while not any("waiting" in str(each) or "hello" in str(each) for each in meeting.rglob("*")):
            assert job.poll() is None  # the process may not end by itself before the signal
        begin = time.monotonic()
        job.send_signal(signal.SIGINT)
        out, error = job.communicate(timeout=60)
        took = time.monotonic() - begin
        assert out == "interrupted False\n", error
        assert job.returncode == -signal.SIGINT, error
        if took < 2:
            break
    assert took < 2


def test_ctrl_c_ends_a_job_whose_ranks_wait_in_init(program):
    path = program("""
        import os, time, dabke
        if os.environ["DABKE_RANK"] == "1":
            time.sleep(1000)
        dabke.init()
    """)
    job = subprocess.Popen(
        [os.environ["DABKERUN"], "-np", "2", "--grace-period", "600", sys.executable, path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "DABKE_START_TIMEOUT_SECONDS": "600"},
    )
    for line in job.stderr:
        if "1 of 2 ranks have called dabke_init" in line:
            break
    job.send_signal(signal.SIGINT)
    _, error = job.communicate(timeout=120)
    assert job.returncode == 130, error
    assert "killed because" not in error
    assert error.count("KeyboardInterrupt") == 2, error


def test_other_ranks_are_told_of_one_whose_init_was_interrupted(run, tmp_path):
    done = run(
        """
        import os, pathlib, signal, sys, threading, time, dabke
        rank, told = int(os.environ["DABKE_RANK"]), pathlib.Path(sys.argv[1])
        if rank == 2:
            while not told.exists():
                time.sleep(0.01)
            sys.exit(0)
        if rank == 0:
            threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            dabke.init()
        except dabke.errors.AbortedError as error:
            print(error, flush=True)
            told.touch()
            raise
    """,
        ranks=3,
        env={"DABKE_START_TIMEOUT_SECONDS": "600"},
        arguments=[tmp_path / "told"],
        to_the_last=True,
    )
    assert done.code != 0
    assert "KeyboardInterrupt" in done.output, done.output
    assert "rank 0 on " in done.lines_of(1)[0] and "failed in dabke_init" in done.lines_of(1)[0], done.output
