"""Jobs that a program starts by itself: from some of the ranks, a store, a communicator, or an exchange."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from conftest import ended


def test_a_list_of_ranks_is_a_job_of_these(run):
    done = run(
        """
        import os, dabke, numpy
        rank = int(os.environ["DABKE_RANK"])
        jobs = [[3, 0], [1, 2]]
        for start in range(2):
            dabke.init(comm=next(job for job in jobs if rank in job))
            print(dabke.rank(), dabke.size(), dabke.allgather(numpy.array([rank])).tolist())
            dabke.barrier()
            dabke.shutdown()
    """,
        ranks=4,
    )
    assert done.code == 0, done.output
    for rank, line in {0: "1 2 [3, 0]", 3: "0 2 [3, 0]", 1: "0 2 [1, 2]", 2: "1 2 [1, 2]"}.items():
        assert done.lines_of(rank) == [line] * 2, done.output


SHOWS_NO_KEY = '''
        import ctypes, os, subprocess, sys
        import numpy, dabke, dabke.torch as hvd
        key = os.environ["DABKE_JOB_KEY"]
        assert len(key) == 64
        c = ctypes.CDLL(None)
        c.getenv.restype = ctypes.c_char_p
        def places():
            """Where a program, or one that it starts, would find the key."""
            show = [sys.executable, "-c", "import os; print(dict(os.environ)); print(open('/proc/self/environ').read())"]
            return {
                "os.environ": repr(dict(os.environ)),
                "os.environb": repr(dict(os.environb)),
                "getenv": repr(c.getenv(b"DABKE_JOB_KEY")),
                "/proc": open("/proc/self/environ").read(),
                "child": subprocess.run(show, stdout=subprocess.PIPE, text=True).stdout,
                "child of a copy": subprocess.run(show, stdout=subprocess.PIPE, text=True, env={**os.environ}).stdout,
                "shell": os.popen("env").read(),
            }
        assert all(key in text for text in places().values())  # it would be seen
        def check():
            assert not [place for place, text in places().items() if key in text or key.upper() in text]
'''


@pytest.mark.parametrize("first", ["dabke.init()", "dabke.init(comm=[0, 1])", "hvd.init()"])
def test_the_jobs_key_is_nowhere_after_init_and_a_job_starts_again(run, first):
    done = run(
        SHOWS_NO_KEY
        + f"""
        for start in (lambda: {first}, dabke.init, lambda: dabke.init(comm=[1, 0]), hvd.init, lambda: dabke.init(comm=[0, 1])):
            start()
            check()
            assert dabke.allgather(numpy.array([1])).tolist() == [1, 1]
            dabke.barrier()
            dabke.shutdown()
            check()
        print("all five")
    """
    )
    assert done.code == 0 and done.lines_of(0) == done.lines_of(1) == ["all five"], done.output


def test_a_program_that_a_rank_starts_is_told_that_it_is_no_part_of_the_job(run):
    done = run("""
        import os, subprocess, sys, dabke
        dabke.init()
        child = "import dabke; dabke.init()"
        for env in (None, {**os.environ}):
            print("was taken by the rank" in subprocess.run([sys.executable, "-c", child], stderr=subprocess.PIPE, text=True, env=env).stderr)
    """)
    assert done.code == 0 and done.lines_of(0) == done.lines_of(1) == ["True", "True"], done.output


@pytest.mark.parametrize(
    "comm,says",
    [
        ("[0]", "which is not in comm"),
        ("[0, 0]", "different ranks"),
        ("[0, 9]", "different ranks"),
        ('"text"', "comm is a str"),
        ("3.5", "comm is a float"),
    ],
)
def test_a_comm_that_makes_no_sense_is_refused(run, comm, says):
    done = run(f"""
        import os, dabke
        if os.environ["DABKE_RANK"] == "1":
            try:
                dabke.init(comm={comm})
            except ValueError as error:
                print(error)
    """)
    assert says in "".join(done.lines_of(1)), done.output


def test_without_dabkerun_a_list_of_ranks_says_what_to_do(run):
    done = run("import dabke\ndabke.init(comm=[0])\n", ranks=0)
    assert "DABKE_RANK is not set" in done.output


OVER_A_FOLDER = '''
    import fcntl, os, sys, dabke, numpy
    rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    class Store:
        """What a torch.distributed store has, over files."""
        def set(self, key, value):
            path = os.path.join(folder, key.replace("/", "."))
            with open(path + "~", "wb") as file:
                file.write(value)
            os.rename(path + "~", path)
        def get(self, key):
            while True:
                try:
                    with open(os.path.join(folder, key.replace("/", ".")), "rb") as file:
                        return file.read()
                except FileNotFoundError:
                    os.sched_yield()
        def add(self, key, amount):
            with open(os.path.join(folder, key.replace("/", ".") + ".count"), "a+") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.seek(0)
                count = int(file.read() or 0) + amount
                file.truncate(0)
                file.write(str(count))
                return count
    class Communicator:
        """What an mpi4py communicator has."""
        steps = 0
        def Get_rank(self): return rank
        def Get_size(self): return size
        def allgather(self, mine):
            self.steps += 1
            store.set(f"mpi/{self.steps}/{rank}", mine)
            return [store.get(f"mpi/{self.steps}/{other}") for other in range(size)]
    store = Store()
    communicator = Communicator()
    for arguments in {starts}:
        dabke.init(**arguments)
        print(dabke.allgather(numpy.array([dabke.rank()])).tolist(), flush=True)
        dabke.barrier()
        dabke.shutdown()
'''


@pytest.mark.parametrize(
    "starts",
    [
        "[dict(comm=store, rank=rank, size=size)] * 2",
        "[dict(comm=communicator)] * 2",
        '[dict(exchange=lambda mine: b"".join(communicator.allgather(mine)), rank=rank, size=size)]',
    ],
    ids=["store", "communicator", "exchange"],
)
def test_a_job_starts_over_what_the_program_brings(program, tmp_path, starts):
    path = program(OVER_A_FOLDER.replace("{starts}", starts))
    ranks = [
        subprocess.Popen([sys.executable, path, str(rank), "3", tmp_path], stdout=subprocess.PIPE, text=True)
        for rank in range(3)
    ]
    for rank in ranks:
        output, _ = rank.communicate(timeout=300)
        assert rank.returncode == 0
        assert set(output.splitlines()) == {"[0, 1, 2]"}


@pytest.mark.parametrize(
    "mpi,flags", [("mpich", []), ("openmpi", ["--allow-run-as-root", "--oversubscribe"])]
)
def test_a_communicator_of_mpi4py_and_its_halves_are_jobs(program, mpi, flags):
    pytest.importorskip("mpi4py")
    mpirun = shutil.which(f"mpirun.{mpi}") or pytest.skip(f"mpirun.{mpi} is not installed")
    path = program("""
        from mpi4py import MPI
        import dabke, numpy
        world = MPI.COMM_WORLD
        half = world.Split(world.rank % 2, world.rank)
        for comm in (half, world, half):
            dabke.init(comm=comm)
            print(f"{world.rank} of {world.size}: {dabke.rank()} {dabke.allgather(numpy.array([world.rank])).tolist()}\\n", end="", flush=True)
            dabke.barrier()
            dabke.shutdown()
    """)
    libraries = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True, check=True).stdout
    mpich = re.search(r"libmpich\.so\.12 .* => (\S+)", libraries)
    if mpich:  # Debian's soname of MPICH is not the one that mpi4py searches for
        os.symlink(mpich[1], path.parent / "libmpi.so.12")
    # The variable selects the MPI; without it, mpi4py would take the first one that it finds.
    done = ended(
        [mpirun, *flags, "-np", "4", sys.executable, path],
        300,
        {"MPI4PY_MPIABI": mpi, "LD_LIBRARY_PATH": str(path.parent)},
    )
    halves = {0: "0 [0, 2]", 1: "0 [1, 3]", 2: "1 [0, 2]", 3: "1 [1, 3]"}
    lines = [f"{rank} of 4: {half}" for rank, half in halves.items()] * 2
    lines += [f"{rank} of 4: {rank} [0, 1, 2, 3]" for rank in range(4)]
    assert sorted(line for line in done.output.splitlines() if " of 4: " in line) == sorted(lines), (
        done.output
    )
    assert done.code == 0, done.output


def test_a_job_starts_over_a_store_of_torch(program):
    pytest.importorskip("torch")
    path = program("""
        import sys, dabke, numpy
        from datetime import timedelta
        from torch.distributed import FileStore, PrefixStore, TCPStore
        rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
        file = FileStore(folder + "/store", size)
        if rank == 0:
            tcp = TCPStore("127.0.0.1", 0, None, True, timedelta(seconds=60), wait_for_workers=False)
            file.set("port", str(tcp.port))
        else:
            tcp = TCPStore("127.0.0.1", int(file.get("port")), None, False, timedelta(seconds=60))
        for store in (tcp, PrefixStore("again", tcp), tcp, file):
            dabke.init(comm=store, rank=rank, size=size)
            print(dabke.allgather(numpy.array([dabke.rank()])).tolist(), flush=True)
            dabke.barrier()
            dabke.shutdown()
        file.add("done", 1)
        while int(file.add("done", 0)) < size:
            pass
    """)
    ranks = [
        subprocess.Popen(
            [sys.executable, path, str(rank), "3", str(path.parent)], stdout=subprocess.PIPE, text=True
        )
        for rank in range(3)
    ]
    for rank in ranks:
        output, _ = rank.communicate(timeout=300)
        assert (rank.returncode, output.splitlines()) == (0, ["[0, 1, 2]"] * 4)


def test_an_exchange_that_raises_is_the_error_of_init(run):
    done = run(
        """
        import dabke
        def exchange(mine):
            raise KeyError("the store is gone")
        try:
            dabke.init(exchange=exchange, rank=0, size=1)
        except KeyError as error:
            print(error)
        dabke.init(exchange=lambda mine: mine, rank=0, size=1)
        print(dabke.size())
        dabke.shutdown()
        try:
            dabke.init(exchange=lambda mine: b"short", rank=0, size=1)
        except ValueError as error:
            print(error)
    """,
        ranks=0,
    )
    lines = done.output.splitlines()
    assert lines[0] == "'the store is gone'", done.output
    assert lines[1] == "1"
    assert "instead of" in lines[2]


def test_settings_come_before_the_environment_and_wrong_ones_are_refused(run):
    done = run(
        """
        import dabke
        try:
            dabke.init(settings={"FUSION_THRESHOLD": "much"})
        except ValueError as error:
            print(error)
        dabke.init(settings={"FUSION_THRESHOLD": 12345, "TIMELINE_MARK_CYCLES": True})
        print([row["value"] for row in dabke.config() if row["name"] == "DABKE_FUSION_THRESHOLD"])
    """,
        ranks=0,
        env={"DABKE_FUSION_THRESHOLD": "777"},
    )
    assert "FUSION_THRESHOLD" in done.output.splitlines()[0], done.output
    assert "12345" in done.output.splitlines()[-1], done.output
