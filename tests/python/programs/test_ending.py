"""The end of a program, and its effect on the other ranks."""

import ast
import re

import pytest


def test_a_program_that_does_not_shut_down_ends_and_lets_the_others_end(run):
    done = run("""
        import dabke, numpy
        dabke.init()
        dabke.allreduce(numpy.ones(3))
        if dabke.rank() == 0:
            try:
                dabke.allreduce(numpy.ones(3), "alone")
            except dabke.HorovodInternalError as error:
                print(type(error).__name__)
    """)
    assert done.code == 0, done.output
    assert done.lines_of(0) == ["ShutDownError"]


def test_operations_pending_at_the_exit_are_no_trouble(run):
    done = run("""
        import dabke, numpy
        dabke.init()
        handles = [dabke.allreduce_async(numpy.ones(1000), f"never {dabke.rank()} {i}") for i in range(100)]
        dabke.allreduce_async(numpy.ones(1000), f"dropped {dabke.rank()}")
    """)
    assert done.code == 0, done.output


def test_an_uncaught_exception_is_the_first_cause_on_every_rank(run):
    done = run(
        """
        import dabke, numpy
        dabke.init()
        if dabke.rank() == 1:
            None + 1
        try:
            dabke.allreduce(numpy.ones(3))
        except dabke.errors.AbortedError as error:
            print(error)
            raise
    """,
        ranks=3,
        to_the_last=True,
    )
    assert done.code != 0
    for rank in (0, 2):
        assert any(
            "TypeError: unsupported operand type(s) for +: 'NoneType' and 'int' (train.py:5)" in line
            for line in done.lines_of(rank)
        ), done.output
    assert "[1]<stderr>:TypeError: unsupported operand type(s) for +: 'NoneType' and 'int'" in done.output
    assert 'train.py", line 5' in done.output
    assert "first failure: rank 1" in done.output
    # For each rank that failed because of rank 1, one line states where the rank was. More tracebacks would
    # hide the important one.
    assert done.output.count("Traceback") == 1, done.output
    for rank in (0, 2):
        assert re.search(
            rf"^\[{rank}\]<stderr>:dabke.errors.AbortedError: .*rank 1 on ", done.output, re.MULTILINE
        ), done.output
        assert re.search(rf"^\[{rank}\]<stderr>:  at .*train.py:7 in <module>$", done.output, re.MULTILINE), (
            done.output
        )


def test_a_mismatch_is_told_in_full_once_and_each_rank_tells_its_line(run):
    done = run(
        """
        import dabke, numpy
        def on_two(rank):
            dabke.allreduce(numpy.ones(3), "layer1.grad")
        dabke.init()
        if dabke.rank() == 2:
            on_two(2)
        else:
            dabke.allreduce(numpy.ones(4), "layer1.grad")
    """,
        ranks=4,
        to_the_last=True,
    )
    assert done.code != 0
    lines = done.output.splitlines()
    assert sum("Every rank of the process set must pass the same shape." in line for line in lines) == 1, (
        done.output
    )
    assert done.output.count("Traceback") == 1, done.output
    assert "collectives.py" not in done.output, done.output  # the traceback ends with the program's own line
    assert (
        "reported)" in done.output and "in on_two" in done.output and "train.py:9 in <module>" in done.output
    ), done.output


def test_an_error_of_this_rank_alone_has_its_traceback(run):
    done = run(
        """
        import dabke, numpy
        dabke.init()
        if dabke.rank() == 1:
            dabke.broadcast(numpy.ones(3), root_rank=7)
        dabke.barrier()
    """,
        to_the_last=True,
    )
    assert done.code != 0
    assert 'train.py", line 5, in <module>' in done.output, done.output
    assert "InvalidArgumentError" in done.output, done.output


def test_an_exception_whose_text_has_no_utf8_or_a_nul_ends_the_others_too(run):
    done = run(
        r"""
        import dabke, numpy
        dabke.init()
        if dabke.rank() == 1:
            raise ValueError("half \udc80 and \0 end")
        try:
            dabke.allreduce(numpy.ones(3))
        except dabke.errors.AbortedError as error:
            print(str(error).encode().decode("ascii"))
            raise
    """,
        ranks=2,
        to_the_last=True,
    )
    assert done.code != 0
    assert any(r"ValueError: half \udc80 and \0 end (train.py:5)" in line for line in done.lines_of(0)), (
        done.output
    )


def test_the_place_named_is_the_programs_and_not_the_packages(run):
    done = run("""
        import dabke, numpy
        dabke.init()
        if dabke.rank() == 1:
            dabke.allreduce_(numpy.ones((4, 4)).T[:, :2])
        dabke.barrier()
    """)
    assert "(train.py:5)" in done.output


def test_hooks_that_were_there_are_called_too(run):
    done = run(
        """
        import sys, dabke
        sys.excepthook = lambda *arguments: print("the hook of the program")
        dabke.init()
        raise KeyError
    """,
        ranks=0,
    )
    assert "the hook of the program" in done.output


def test_an_uncaught_exception_is_written_at_once_so_that_no_line_of_the_log_comes_into_it(run):
    done = run(
        """
        import sys, threading, dabke
        class Pieces:
            def write(self, text):
                sys.stdout.write(repr(text) + "\\n")  # in one piece: the log writes into the same pipe
            def flush(self):
                pass
        dabke.init()
        sys.stderr = Pieces()
        def submit():
            dabke.barrier()
            raise KeyError("in a thread")
        thread = threading.Thread(target=submit)
        thread.start()
        thread.join()
        raise KeyError("of the program")
    """,
        ranks=0,
    )
    pieces = [ast.literal_eval(line) for line in done.output.splitlines() if line.startswith(('"', "'"))]
    assert len(pieces) == 2, done.output
    assert all("Traceback" in piece for piece in pieces)
    assert pieces[0].endswith("KeyError: 'in a thread'\n")
    assert pieces[1].endswith("KeyError: 'of the program'\n")


def test_an_exception_in_a_thread_that_submits_ends_the_job(run):
    done = run("""
        import threading, dabke, numpy
        dabke.init()
        def work():
            dabke.allreduce(numpy.ones(1))
            raise KeyError("in a thread")
        if dabke.rank() == 1:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        else:
            dabke.allreduce(numpy.ones(1))
        try:
            dabke.allreduce(numpy.ones(1), "later")
        except dabke.errors.AbortedError as error:
            print(error)
    """)
    for rank in (0, 1):
        assert any("KeyError: 'in a thread' (train.py:6)" in line for line in done.lines_of(rank)), (
            done.output
        )


def test_an_exception_in_another_thread_does_not(run):
    done = run("""
        import threading, dabke, numpy
        dabke.init()
        thread = threading.Thread(target=lambda: 1 / 0)
        thread.start()
        thread.join()
        print(dabke.allreduce(numpy.ones(1), op=dabke.Sum)[0])
    """)
    assert done.code == 0
    assert done.lines_of(0) == ["2.0"], done.output


def test_a_job_can_be_started_again_in_one_process(run):
    done = run(
        """
        import dabke, numpy
        pair = dabke.ProcessSet([0, 1])
        for start in range(5):
            dabke.init(process_sets=[pair, [0]])
            assert pair.process_set_id == 1
            if pair.included():
                print(dabke.allreduce(numpy.full(1, float(start)), op=dabke.Sum, process_set=pair)[0])
            dabke.barrier()
            dabke.shutdown()
            assert pair.process_set_id is None
    """,
        ranks=3,
    )
    assert done.code == 0, done.output
    assert done.lines_of(0) == [f"{2.0 * start}" for start in range(5)]
    assert done.lines_of(2) == []  # rank 2 is in neither set


def test_threads_that_wait_at_the_exit_are_no_trouble(run):
    done = run("""
        import threading, dabke, numpy
        dabke.init()
        def wait():
            dabke.allreduce(numpy.ones(1), f"never {dabke.rank()}")
        for _ in range(8):
            threading.Thread(target=wait, daemon=True).start()
        dabke.barrier()
    """)
    assert done.code == 0, done.output


LEAVES = {
    "sys.exit(0)": ("sys.exit(0)", "left the job normally"),
    "end of the program": ("sys.exit()", "left the job normally"),
    "uneven steps": ("dabke.shutdown(); sys.exit(0)", "left the job normally"),
    "os._exit(0)": ("os._exit(0)", "ended with status 0 without dabke.shutdown()"),
}


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("way", LEAVES)
def test_a_rank_that_leaves_early_with_0_is_the_first_cause(run, way, ranks):
    leave, text = LEAVES[way]
    done = run(
        f"""
        import os, sys, dabke, numpy
        dabke.init()
        dabke.allreduce(numpy.ones(3), "warm")
        if dabke.rank() == 1:
            {leave}
        try:
            dabke.allreduce(numpy.ones(3), "grad")
        except dabke.HorovodInternalError as error:
            print(error, flush=True)
            raise
    """,
        ranks=ranks,
        to_the_last=True,
    )
    assert done.code == 1, done.output
    told = "\n".join(done.lines_of(0))
    assert text in told and "allreduce 'grad'" in told, done.output
    assert "do all ranks run the same number of steps? See join()" in told
    assert "first failure" not in done.output
    verdict = done.output[done.output.index("dabkerun: first cause: rank 1 on host") :]
    assert text.replace("normally", "normally (status 0)") in verdict, done.output
    assert "dabkerun: after that: rank" in verdict


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_rank_that_ends_with_0_before_init_ends_that_of_the_others(run, ranks):
    done = run(
        """
        import os, sys, dabke
        if os.environ["DABKE_RANK"] == "1":
            sys.exit(0)
        try:
            dabke.init()
        except dabke.errors.PeerLostError as error:
            print(error, flush=True)
            raise
    """,
        ranks=ranks,
        env={"DABKE_START_TIMEOUT_SECONDS": "600"},
        to_the_last=True,
    )
    assert done.code == 1, done.output
    told = "ended with status 0 before calling dabke.init()"
    assert told in "\n".join(done.lines_of(0)), done.output
    assert told in done.output[done.output.index("dabkerun: first cause: rank 1 on host") :], done.output


def test_a_rank_that_ends_before_the_init_of_a_job_without_it_ends_nothing(run):
    done = run(
        """
        import os, sys, time, dabke, numpy
        if os.environ["DABKE_RANK"] == "2":
            sys.exit(0)
        store = dabke._bootstrap.launcher_store.open_store()
        while store._request("GET", f"/dabke/1/value/{store._job}/ended/2?wait_ms=20000")[0] != 200:
            pass
        dabke.init(comm=[0, 1])
        print(dabke.allreduce(numpy.ones(1), op=dabke.Sum)[0])
    """,
        ranks=3,
    )
    assert done.code == 0, done.output
    assert done.lines_of(0) == done.lines_of(1) == ["2.0"]


def test_a_rank_that_ends_before_the_init_of_a_job_with_it_ends_that_of_the_others(run):
    done = run(
        """
        import os, sys, dabke
        if os.environ["DABKE_RANK"] == "1":
            sys.exit(0)
        if os.environ["DABKE_RANK"] == "0":
            try:
                dabke.init(comm=[0, 1])
            except dabke.errors.PeerLostError as error:
                print(error)
    """,
        ranks=3,
    )
    assert done.code == 0, done.output
    assert "rank 1 on " in done.lines_of(0)[0]
    assert (
        "ended with status 0 before calling dabke.init(); all ranks of comm must call it"
        in done.lines_of(0)[0]
    )
