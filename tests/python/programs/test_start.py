"""Jobs that a program starts by itself: some of the ranks, a store, a communicator, an exchange."""
import os
import subprocess
import sys

import pytest


def test_a_list_of_ranks_is_a_job_of_these(run):
    done = run('''
        import os, dabke, numpy
        rank = int(os.environ["DABKE_RANK"])
        jobs = [[3, 0], [1, 2]]
        for start in range(2):
            dabke.init(comm=next(job for job in jobs if rank in job))
            print(dabke.rank(), dabke.size(), dabke.allgather(numpy.array([rank])).tolist())
            dabke.barrier()
            dabke.shutdown()
    ''', ranks=4)
    assert done.code == 0, done.output
    for rank, line in {0: '1 2 [3, 0]', 3: '0 2 [3, 0]', 1: '0 2 [1, 2]', 2: '1 2 [1, 2]'}.items():
        assert done.lines_of(rank) == [line] * 2, done.output


@pytest.mark.parametrize('comm,says', [('[0]', 'a job without it'), ('[0, 0]', 'different ranks'), ('[0, 9]', 'different ranks'),
                                       ('"text"', 'comm is a str'), ('3.5', 'comm is a float')])
def test_a_comm_that_makes_no_sense_is_refused(run, comm, says):
    done = run(f'''
        import os, dabke
        if os.environ["DABKE_RANK"] == "1":
            try:
                dabke.init(comm={comm})
            except ValueError as error:
                print(error)
    ''')
    assert says in ''.join(done.lines_of(1)), done.output


def test_without_dabkerun_a_list_of_ranks_says_what_to_do(run):
    done = run('import dabke\ndabke.init(comm=[0])\n', ranks=0)
    assert 'DABKE_RANK is not set' in done.output


OVER_A_FOLDER = '''
    import os, sys, dabke, numpy
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
        counts = {}
        def add(self, key, amount):
            self.counts[key] = self.counts.get(key, 0) + amount
            return self.counts[key]
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


@pytest.mark.parametrize('starts', [
    '[dict(comm=store, rank=rank, size=size)] * 2',
    '[dict(comm=communicator)] * 2',
    '[dict(exchange=lambda mine: b"".join(communicator.allgather(mine)), rank=rank, size=size)]',
], ids=['store', 'communicator', 'exchange'])
def test_a_job_starts_over_what_the_program_brings(program, tmp_path, starts):
    path = program(OVER_A_FOLDER.replace('{starts}', starts))
    ranks = [subprocess.Popen([sys.executable, path, str(rank), '3', tmp_path], stdout=subprocess.PIPE, text=True)
             for rank in range(3)]
    for rank in ranks:
        output, _ = rank.communicate(timeout=60)
        assert rank.returncode == 0
        assert set(output.splitlines()) == {'[0, 1, 2]'}


def test_an_exchange_that_raises_is_the_error_of_init(run):
    done = run('''
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
    ''', ranks=0)
    lines = done.output.splitlines()
    assert lines[0] == "'the store is gone'", done.output
    assert lines[1] == '1'
    assert 'instead of' in lines[2]


def test_settings_come_before_the_environment_and_wrong_ones_are_refused(run):
    done = run('''
        import dabke
        try:
            dabke.init(settings={"FUSION_THRESHOLD": "much"})
        except ValueError as error:
            print(error)
        dabke.init(settings={"FUSION_THRESHOLD": 12345, "TIMELINE_MARK_CYCLES": True})
        print([row["value"] for row in dabke.config() if row["name"] == "DABKE_FUSION_THRESHOLD"])
    ''', ranks=0, env={'DABKE_FUSION_THRESHOLD': '777'})
    assert 'FUSION_THRESHOLD' in done.output.splitlines()[0], done.output
    assert "12345" in done.output.splitlines()[-1], done.output
