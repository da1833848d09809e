"""The package itself: its types, what it imports, what it needs."""
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[3] / 'bindings' / 'python' / 'dabke'


def test_the_types_are_strict():
    pytest.importorskip('mypy')
    # What is built on PyTorch is held against its types, and passed over where it is not there.
    without_torch = [] if importlib.util.find_spec('torch') else ['--exclude', '/(torch/|distributed.py|autoload.py)']
    done = subprocess.run([sys.executable, '-m', 'mypy', '--strict', '--cache-dir', '/dev/null', *without_torch, str(SOURCES)],
                          capture_output=True, text=True, cwd=SOURCES.parent)
    assert done.returncode == 0, done.stdout


def test_the_types_of_the_compiled_part_are_those_that_it_has():
    pytest.importorskip('mypy')
    done = subprocess.run([sys.executable, '-m', 'mypy.stubtest', 'dabke._core', '--ignore-missing-stub',
                           '--ignore-positional-only'], capture_output=True, text=True)
    missing = [line for line in done.stdout.splitlines() if 'is not present at runtime' in line and '__buffer__' not in line]  # which Python 3.12 has
    assert missing == []


def test_a_typed_program_passes_too(program):
    pytest.importorskip('mypy')
    path = program('''
        import dabke
        import numpy as np

        dabke.init(process_sets=[dabke.ProcessSet([0])], settings={"JOIN": "horovod"})
        mean = dabke.allreduce(np.ones(3), name="x", op=dabke.Average, process_set=dabke.global_process_set)
        print(mean.shape, dabke.rank() + dabke.size())
        handle: dabke.Handle = dabke.broadcast_async_(np.ones(3), root_rank=0)
        done: bool = dabke.poll(handle)
        results: list[object] = dabke.run(print, np=2)
        try:
            dabke.synchronize(handle)
        except dabke.HorovodInternalError as error:
            print(error.status)
        with dabke.annotate("step"):
            dabke.mark_step(1)
    ''')
    done = subprocess.run([sys.executable, '-m', 'mypy', '--strict', '--cache-dir', '/dev/null', str(path)],
                          capture_output=True, text=True, env={**os.environ, 'MYPYPATH': str(SOURCES.parent)})
    assert done.returncode == 0, done.stdout


def test_importing_brings_no_framework(run):
    done = run('''
        import sys, dabke
        print([name for name in ("numpy", "torch", "tensorflow", "jax") if name in sys.modules])
    ''', ranks=0)
    assert done.output.strip() == '[]'


def test_it_works_without_numpy(run):
    done = run('''
        import sys
        sys.modules["numpy"] = None
        import array, dabke
        dabke.init()
        mine = array.array("f", [dabke.rank(), 1])
        print(dabke.allreduce(mine, op=dabke.Sum).tolist())
        print(dabke.allgather(mine).tolist())
        shared = dabke.alloc((2, 3), "float64")
        for i in range(2):
            for j in range(3):
                shared[i, j] = 1.0
        print(dabke.allreduce_(shared, op=dabke.Sum).tolist())
    ''')
    assert done.code == 0, done.output
    assert done.lines_of(0) == ['[1.0, 2.0]', '[0.0, 1.0, 1.0, 1.0]', str([[2.0] * 3] * 2)]


def test_every_public_name_has_a_docstring():
    import dabke
    bare = [name for name in dabke.__all__ if callable(getattr(dabke, name)) and not getattr(dabke, name).__doc__]
    assert bare == []


def test_every_public_name_is_in_the_documentation():
    import dabke
    text = (SOURCES.parents[2] / 'docs' / 'python.md').read_text()
    missing = [name for name in dabke.__all__ if f'`{name}' not in text and f'{name}`' not in text]
    assert missing == []
