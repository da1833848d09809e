"""Training whose ranks are killed again and again."""

import os
import pathlib
import random
import re
import signal
import sys
import time

import numpy
from digits_trainer import Digits, train_alone
from running_job import RunningJob

PROGRAM = pathlib.Path(__file__).resolve().parent / "digits_trainer.py"
KILLS, SEED = 50, 1
MEMBER = re.compile(r"<stdout>:epoch (\d+) rank (\d+) of (\d+) pid (\d+)\n")
FLAGS = ("-np", "4", "--min-np", "1", "--max-np", "4", "--blacklist-cooldown-range", "0.1", "0.1")


def newest_whole_epoch(text):
    """The process ids, by rank, of the newest epoch in which every rank has committed. All of them hold the
    state, so one of two may be killed."""
    epochs = {}
    for epoch, rank, size, pid in MEMBER.findall(text):
        epochs.setdefault((int(epoch), int(size)), {})[int(rank)] = int(pid)
    whole = [key for key, members in epochs.items() if len(members) == key[1]]
    return epochs[max(whole)] if whole else {}


def kill_one(job, chance, killed):
    """Kills a random rank at a random time, once at least a random number of ranks are there."""
    wanted = chance.randint(2, 4)

    def members_to_kill(text):
        members = newest_whole_epoch(text)
        return members if len(members) >= wanted and not killed & set(members.values()) else {}

    members = job.wait_until(members_to_kill, f"epoch of {wanted} ranks after {len(killed)} kills")
    time.sleep(chance.uniform(0, 0.02))
    pid = members[chance.randrange(len(members))]
    os.kill(pid, signal.SIGKILL)
    killed.add(pid)


def test_training_that_is_killed_50_times_ends_as_if_it_were_unbroken(tmp_path):
    chance, killed = random.Random(SEED), set()
    with RunningJob([*FLAGS, sys.executable, str(PROGRAM), str(tmp_path)]) as job:
        for _ in range(KILLS):
            kill_one(job, chance, killed)
        (tmp_path / "stop").touch()
        text = job.finish()
    lost = re.findall(r"dabkerun: epoch \d+: rank (\d+) \(host \S+\) was killed by SIGKILL", text)
    assert len(lost) == KILLS, text
    assert "0" in lost, text
    assert len(re.findall(r"; \d+ steps? (?:is|are) repeated\n", text)) > KILLS // 2, text

    ends = [numpy.load(path) for path in sorted(tmp_path.glob("*.npz"))]
    assert [int(end["size"]) for end in ends] == [len(ends)] * len(ends), text
    digits = Digits()
    unbroken = train_alone(digits, int(ends[0]["step"]))
    for end in ends:
        assert end["step"] == ends[0]["step"]
        numpy.testing.assert_array_equal(end["weights"], ends[0]["weights"])
    numpy.testing.assert_allclose(ends[0]["weights"], unbroken, rtol=1e-6, atol=1e-9)
    assert digits.accuracy(ends[0]["weights"]) == digits.accuracy(unbroken) > 0.9
