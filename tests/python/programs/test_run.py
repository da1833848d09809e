"""The functions dabke.run and python -m dabke.launch."""

import os
import subprocess
import sys

import pytest

import dabke
from dabke import launch


def test_the_results_come_by_rank(run):
    done = run(
        """
        import dabke, numpy
        if __name__ == "__main__":
            offset = 100
            def work(a, b=0):
                dabke.init()
                return dabke.rank(), float(dabke.allreduce(numpy.array([a + b]), op=dabke.Sum)[0]) + offset
            print(dabke.run(work, (1.0,), {"b": 2.0}, np=3))
    """,
        ranks=0,
    )
    assert "[(0, 109.0), (1, 109.0), (2, 109.0)]" in done.output


def test_a_rank_may_run_a_job_of_its_own(run):
    done = run("""
        import os, dabke, numpy
        def work():
            key = os.environ["DABKE_JOB_KEY"]
            dabke.init()
            assert len(key) == 64 and key not in os.environ.values()
            return int(dabke.allreduce(numpy.array([1]), op=dabke.Sum)[0])
        if __name__ == "__main__":
            dabke.init()
            print(dabke.run(work, np=3))
            dabke.barrier()
    """)
    assert done.code == 0 and done.lines_of(0) == done.lines_of(1) == ["[3, 3, 3]"], done.output


def test_what_goes_between_processes_is_private(run):
    done = run(
        """
        import dabke, os, stat, sys
        if __name__ == "__main__":
            def work():
                folder = sys.argv[1]
                return [stat.S_IMODE(os.stat(path).st_mode) for path in (folder, os.path.join(folder, "call"))]
            print(dabke.run(work, np=1))
    """,
        ranks=0,
    )
    assert str([[0o700, 0o600]]) in done.output, done.output


@pytest.fixture
def remote_shell(tmp_path):
    """A replacement for ssh: all hosts are this one."""
    path = tmp_path / "remote-shell"
    path.write_text('#!/bin/sh\nexec sh -c "$2"\n')
    path.chmod(0o700)
    return path


def test_the_ranks_may_be_on_several_hosts(run, remote_shell):
    done = run(
        """
        import dabke, numpy, sys
        if __name__ == "__main__":
            def work(large):
                dabke.init()
                print("shown")
                if dabke.rank() == 1:
                    sys.stdout.write("without an end of line")
                total = float(dabke.allreduce(numpy.array([len(large)]), op=dabke.Sum)[0])
                return dabke.rank(), dabke.local_rank(), dabke.cross_rank(), total, large
            results = dabke.run(work, (bytes(range(256)) * 1000,), np=3, hosts="one:1,two:2",
                                launcher_args=["--remote-shell", sys.argv[1]])
            print([result[:4] for result in results], all(result[4] == bytes(range(256)) * 1000 for result in results))
    """,
        ranks=0,
        arguments=[remote_shell],
    )
    assert done.code == 0, done.output
    lines = sorted(done.output.splitlines())
    # Two names of one machine count as one host.
    assert lines == [
        "[(0, 0, 0, 768000.0), (1, 1, 0, 768000.0), (2, 2, 0, 768000.0)] True",
        "[0]<stdout>:shown",
        "[1]<stdout>:shown",
        "[1]<stdout>:without an end of line",
        "[2]<stdout>:shown",
        "dabkerun: one, two are one machine, so they count as one host, one",
    ], done.output


@pytest.mark.parametrize(
    "failure, told",
    [
        ('raise KeyError("rank one")', ["rank 1 failed", "KeyError: 'rank one'", "in work"]),
        ("os._exit(3)", ["without a result", "exited with status code 3"]),
    ],
)
@pytest.mark.parametrize("hosts", [None, "one:1,two:1"])
def test_a_rank_that_fails_is_the_error_and_not_what_the_others_got_of_it(
    run, remote_shell, hosts, failure, told
):
    done = run(
        f"""
        import dabke, os, sys
        if __name__ == "__main__":
            def work():
                dabke.init()
                if dabke.rank() == 1:
                    {failure}
                dabke.barrier()
            try:
                dabke.run(work, np=2, hosts={hosts!r}, launcher_args=["--remote-shell", sys.argv[1]])
            except dabke.RunError as error:
                print("raised", str(error))
    """,
        ranks=0,
        arguments=[remote_shell],
    )
    text = done.output[done.output.index("raised") :]
    for part in told:
        assert part in text, done.output


def test_hosts_that_cannot_be_reached_are_the_error_of_the_launcher():
    with pytest.raises(dabke.RunError, match="host nowhere.invalid: unknown host name"):
        dabke.run(print, np=1, hosts="nowhere.invalid:1")


def test_a_call_that_dabkerun_may_not_pass_on_says_so():
    with pytest.raises(dabke.RunError, match="must not have --stdin none"):
        dabke.run(print, np=1, hosts="localhost:1", launcher_args=["--stdin", "none"])


def test_more_than_goes_between_hosts_is_refused():
    with pytest.raises(ValueError, match="at most"):
        dabke.run(print, (bytes(65 << 20),), np=1, hosts="one:1")


def test_arguments_of_an_elastic_job_become_flags_of_dabkerun():
    from dabke.run import _elastic_flags

    given = {"min_np": 2, "max_np": None, "blacklist_cooldown_range": (5, 60), "elastic_timeout": 30.5}
    assert _elastic_flags(given) == [
        *("--min-np", "2", "--blacklist-cooldown-range", "5", "60", "--elastic-timeout", "30.5")
    ]
    with pytest.raises(ValueError, match="max_np, spares needs an elastic job; pass min_np"):
        dabke.run(print, np=1, max_np=4, spares=1)


@pytest.mark.parametrize("hosts", [None, "one:3,two:1"])
def test_an_elastic_job_goes_on_without_a_lost_rank(run, remote_shell, hosts):
    done = run(
        f"""
        import dabke, os, signal, sys
        if __name__ == "__main__":
            def work(large):
                dabke.init()
                state = dabke.elastic.ObjectState(step=0)

                @dabke.elastic.run
                def train(state):
                    while state.step < 40:
                        dabke.barrier()
                        state.step += 1
                        if state.step == 10 and dabke.rank() == 0 and dabke.current_epoch().number == 1:
                            os.kill(os.getpid(), signal.SIGKILL)
                        state.commit()
                    return dabke.rank(), dabke.size(), state.step, len(large)

                return train(state)

            print(dabke.run(work, (bytes(500_000),), np=4, min_np=2, max_np=4, hosts={hosts!r},
                            launcher_args=["--remote-shell", sys.argv[1]]))
            try:
                dabke.run(lambda: 1 // 0, np=2, min_np=1)
            except dabke.RunError as error:
                print("ZeroDivisionError" in str(error))
    """,
        ranks=0,
        arguments=[remote_shell],
    )
    assert "[(0, 3, 40, 500000), (1, 3, 40, 500000), (2, 3, 40, 500000)]" in done.output, done.output
    assert done.output.rstrip().endswith("True") or "\nTrue\n" in done.output, done.output


def test_more_than_variables_can_hold_is_refused_between_the_hosts_of_an_elastic_job():
    with pytest.raises(ValueError, match="at most 786432 can be sent between hosts in an elastic job"):
        dabke.run(print, (bytes(1 << 20),), np=1, min_np=1, hosts="one:1")


def test_no_ranks_are_refused():
    with pytest.raises(ValueError):
        dabke.run(print, np=0)


def test_what_cannot_be_pickled_is_refused():
    with pytest.raises(ValueError, match="pickled"):
        dabke.run(print, (sys._getframe(),))


def test_a_result_that_cannot_be_pickled_ends_the_ranks_that_wait(run):
    done = run(
        """
        import threading, dabke, numpy
        def work():
            dabke.init()
            if dabke.rank() == 1:
                return threading.Lock()
            dabke.allreduce(numpy.ones(1))
        if __name__ == "__main__":
            try:
                dabke.run(work, np=2)
            except dabke.RunError as error:
                print("told:", str(error).splitlines()[0], "/", str(error).splitlines()[-1])
    """,
        ranks=0,
    )
    assert "told: dabke.run: rank 1 failed: / TypeError: cannot pickle '_thread.lock' object" in done.output


def test_a_result_that_cannot_be_unpickled_says_whose_it_is(run):
    done = run(
        """
        import os, dabke
        def fails():
            raise ImportError("no such module")
        class Result:
            def __reduce__(self):
                return fails, ()
        def work():
            return Result() if os.environ["DABKE_RANK"] == "1" else 0
        if __name__ == "__main__":
            try:
                dabke.run(work, np=2)
            except dabke.RunError as error:
                print("told:", error)
    """,
        ranks=0,
    )
    assert (
        "told: dabke.run: the result of rank 1 cannot be unpickled here: ImportError: no such module"
        in done.output
    )


def test_the_module_launches_as_dabkerun_does(program):
    path = program("import dabke\ndabke.init()\nprint(dabke.size())\n")
    done = subprocess.run(
        [sys.executable, "-m", "dabke.launch", "-np", "2", sys.executable, str(path)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert sorted(done.stdout.splitlines()) == ["[0]<stdout>:2", "[1]<stdout>:2"]
    assert done.returncode == 0 and done.stderr == ""


def test_dabkerun_is_found_beside_the_library():
    assert os.path.samefile(launch.find_dabkerun(), os.environ["DABKERUN"])
