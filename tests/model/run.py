#!/usr/bin/env python3
"""Explores every state of tests/model/negotiation.pml, one small scenario at a time, with Spin.

Exits with 1, and prints the trail, where a scenario breaks a property or was not explored to its end, and where a seeded
mistake is not found: a model that cannot fail says nothing.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import time

MODEL = pathlib.Path(__file__).resolve().parent / 'negotiation.pml'
DEPTH = 100000
TREES = {'chain': [], 'star': ['-DSTAR']}
SCENARIOS = {  # name: macros
    'ORDER': ['-DT0=2', '-DT1=1'],
    'CACHE': ['-DPLACES=1', '-DT0=2', '-DT1=2'],
    'SETS': ['-DPAIR=1', '-DT0=2', '-DT1=2'],
    'JOIN': ['-DJOIN=2', '-DJOINER_T0=1', '-DT0=2', '-DT1=1', '-DAGAIN=1'],
    'CRASH': ['-DCRASHER=1', '-DT0=1', '-DT1=1'],
    'LEAVE': ['-DLEAVER=2', '-DT0=1', '-DT1=1', '-DPAIR=1'],
    'LEARN': ['-DLEARN', '-DSYNC=1', '-DT0=2', '-DT1=2'],
    'LEARN-WANTED': ['-DLEARN', '-DWANTS', '-DSYNC=1', '-DT0=2', '-DT1=2'],
}
MISTAKES = {  # what is wrong: scenario, macros
    'the root does not wait for its children': ('ORDER', ['-DMISTAKE_NO_WAIT']),
    'a slot that was evicted on its way up is dropped': ('CACHE', ['-DMISTAKE_STALE_SLOT_DROPPED']),
    'what is held is never let go': ('LEARN', ['-DNO_DEADLINE']),
    'orders do not reach a subtree that they concern': ('SETS', ['-DSTAR', '-DMISTAKE_WRONG_SUBTREE']),
}


def call(folder, *command):
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def explore(macros):
    """Returns whether no error was found, whether all was explored, a line of numbers, and what Spin said."""
    with tempfile.TemporaryDirectory() as folder:
        made = call(folder, 'spin', '-a', *macros, str(MODEL))
        if made.returncode != 0:
            sys.exit(made.stdout)
        built = call(folder, 'gcc', '-O1', '-w', '-DSAFETY', '-DCOLLAPSE', '-DMEMLIM=2000', '-DVECTORSZ=4096', '-o', 'pan',
                     'pan.c')
        if built.returncode != 0:
            sys.exit(built.stdout)
        started = time.monotonic()
        told = call(folder, './pan', f'-m{DEPTH}', '-n').stdout
        seconds = time.monotonic() - started
        found = re.search(r'errors: (\d+)', told)
        ok = found is not None and found.group(1) == '0'
        states = re.search(r'(\S+) states, stored', told)
        depth = re.search(r'depth reached (\d+)', told)
        everything = (ok and 'max search depth too small' not in told and 'Search not completed' not in told
                      and 'truncated' not in told and 'out of memory' not in told)
        line = f'{states.group(1) if states else "?"} states, depth {depth.group(1) if depth else "?"}, {seconds:.1f} s'
        if not ok:
            told += call(folder, 'spin', '-t', '-p', '-g', *macros, str(MODEL)).stdout[-12000:]
        return ok, everything, line, told


def main():
    failed = False
    chosen = sys.argv[1:] or list(SCENARIOS)
    for name in chosen:
        for tree, macros in TREES.items():
            ok, everything, line, told = explore(SCENARIOS[name] + macros)
            print(f'{name}, {tree}: {line}{"" if everything else ": NOT EXPLORED" if ok else ": ERROR"}', flush=True)
            if not everything:
                print(told)
                failed = True
    for what, (name, macros) in MISTAKES.items():
        if name not in chosen:
            continue
        ok, _, line, told = explore(SCENARIOS[name] + macros)
        caught = not ok and re.search(r'errors: [1-9]', told) is not None
        print(f'seeded, {what}: {"found" if caught else "NOT FOUND"}, {line}', flush=True)
        failed = failed or not caught
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
