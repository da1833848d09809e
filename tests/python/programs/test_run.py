"""dabke.run and python -m dabke.launch."""
import os
import subprocess
import sys

import pytest

import dabke
from dabke import launch


def test_the_results_come_by_rank(run):
    done = run('''
        import dabke, numpy
        if __name__ == "__main__":
            offset = 100
            def work(a, b=0):
                dabke.init()
                return dabke.rank(), float(dabke.allreduce(numpy.array([a + b]), op=dabke.Sum)[0]) + offset
            print(dabke.run(work, (1.0,), {"b": 2.0}, np=3))
    ''', ranks=0)
    assert '[(0, 109.0), (1, 109.0), (2, 109.0)]' in done.output


def test_a_rank_that_fails_is_the_error_with_its_traceback(run):
    done = run('''
        import dabke
        if __name__ == "__main__":
            def work():
                dabke.init()
                if dabke.rank() == 1:
                    raise KeyError("rank one")
                dabke.barrier()
            try:
                dabke.run(work, np=2)
            except dabke.RunError as error:
                print("raised", error)
    ''', ranks=0)
    text = done.output[done.output.index('raised'):]
    assert 'rank 1 failed' in text
    assert "KeyError: 'rank one'" in text
    assert 'line 7, in work' in text


def test_a_rank_that_dies_is_the_error_with_dabkeruns_last_lines(run):
    done = run('''
        import dabke, os
        if __name__ == "__main__":
            def work():
                os._exit(3)
            try:
                dabke.run(work, np=2)
            except dabke.RunError as error:
                print("raised", error)
    ''', ranks=0)
    text = done.output[done.output.index('raised'):]
    assert 'without a result' in text
    assert 'exited with status code 3' in text


def test_what_goes_between_processes_is_private(run):
    done = run('''
        import dabke, os, stat, sys
        if __name__ == "__main__":
            def work():
                folder = sys.argv[1]
                return [stat.S_IMODE(os.stat(path).st_mode) for path in (folder, os.path.join(folder, "call"))]
            print(dabke.run(work, np=1))
    ''', ranks=0)
    assert str([[0o700, 0o600]]) in done.output, done.output


def test_hosts_come_later():
    with pytest.raises(NotImplementedError, match='hosts'):
        dabke.run(print, hosts='a:2,b:2')


def test_no_ranks_are_refused():
    with pytest.raises(ValueError):
        dabke.run(print, np=0)


def test_what_cannot_be_pickled_is_refused():
    with pytest.raises(ValueError, match='pickled'):
        dabke.run(print, (sys._getframe(),))


def test_the_module_launches_as_dabkerun_does(program):
    path = program('import dabke\ndabke.init()\nprint(dabke.size())\n')
    done = subprocess.run([sys.executable, '-m', 'dabke.launch', '-np', '2', sys.executable, str(path)],
                          capture_output=True, text=True, timeout=60)
    assert sorted(done.stdout.splitlines()) == ['[0]<stdout>:2', '[1]<stdout>:2']
    assert done.returncode == 0


def test_dabkerun_is_found_beside_the_library():
    assert os.path.samefile(launch.find_dabkerun(), os.environ['DABKERUN'])
