"""Torch.distributed's backend in elastic jobs, where each epoch makes groups, messages and DDP anew."""

import os
import re
import sys

import pytest
from conftest import ended
from killed_rank_0 import BEGIN, FLAGS, weights_by_arithmetic
from running_job import RunningJob

torch = pytest.importorskip("torch")
pytest.importorskip("torch.distributed")

HEAD = (
    BEGIN
    + """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def train_step(model, optimizer, step):
    '''Rank 0 of the first epoch is killed between the forward and the backward pass.'''
    optimizer.zero_grad()
    loss = model(data_of(step)).sum()
    die_once(step)
    loss.backward()
    optimizer.step()

net = torch.nn.Linear(3, 1, bias=False)
torch.nn.init.zeros_(net.weight)
optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
"""
)
TAIL = """
print("weights", dist.get_rank(), dist.get_world_size(), steps, net.weight.tolist()[0], flush=True)
dist.destroy_process_group()
"""
BY_RUN = (
    HEAD
    + """
hvd.init()
state = hvd.elastic.TorchState(model=net, optimizer=optimizer, step=0)

@hvd.elastic.run
def train(state):
    if dist.is_initialized():
        try:
            dist.all_reduce(torch.ones(1))
        except ValueError as error:
            print("old group:", error, flush=True)
        dist.destroy_process_group()
    dist.init_process_group("dabke")
    model = DistributedDataParallel(net)
    for steps_here in range(10**6):
        if is_done(steps_here):
            return
        train_step(model, optimizer, state.step)
        state.step += 1
        note(state.step)
        state.commit()

train(state)
steps = state.step
"""
    + TAIL
)
BY_HAND = (
    HEAD
    + """
steps, saved = 0, None

def begin():
    global steps
    dist.init_process_group("dabke")
    roster = dabke.current_epoch()
    if roster.newest_commit is not None:
        values = torch.cat([net.weight.detach()[0], torch.tensor([float(steps)])])
        dist.broadcast(values, roster.holders[0])
        with torch.no_grad():
            net.weight.copy_(values[:3])
        steps = int(values[3])
    return DistributedDataParallel(net)

def train():
    global steps, saved
    model = begin()
    saved = steps, net.weight.detach().clone()
    for steps_here in range(10**6):
        if is_done(steps_here):
            return True
        train_step(model, optimizer, steps)
        steps += 1
        note(steps)
        saved = steps, net.weight.detach().clone()
        if dabke.announced_changes():
            return False

while True:
    try:
        if train():
            break
    except RuntimeError as error:
        print("failed:", " ".join(str(error).split()), flush=True)
        steps = saved[0]
        with torch.no_grad():
            net.weight.copy_(saved[1])
    dist.destroy_process_group()
    dabke.next_epoch(steps)
"""
    + TAIL
)
BY_MESSAGES = (
    BEGIN
    + """
import torch.distributed as dist

net = torch.nn.Linear(3, 1, bias=False)
torch.nn.init.zeros_(net.weight)
hvd.init()
state = hvd.elastic.TorchState(model=net, step=0)

def mean_of_all(mine, step):
    '''Passes the data around the ring. Rank 0 of the first epoch is killed while the others wait for it.'''
    rank, size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    announced = torch.zeros(1)
    from_any = dist.irecv(announced, tag=9)
    total, passed = mine.clone(), mine
    for turn in range(size - 1):
        sent = dist.isend(passed, right, tag=turn)
        received = torch.zeros(3)
        if turn == size - 2:
            die_once(step)
        dist.recv(received, left, tag=turn)
        sent.wait()
        total, passed = total + received, received
    dist.send(torch.tensor([float(rank)]), right, tag=9)
    from_any.wait()
    assert announced.item() == left == from_any._source_rank()
    return total / size

@hvd.elastic.run
def train(state):
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group("dabke")
    for steps_here in range(10**6):
        if is_done(steps_here):
            return
        with torch.no_grad():
            net.weight -= RATE * mean_of_all(data_of(state.step), state.step)
        dist.barrier()  # a call of all ranks carries the news of ranks that wait to join
        state.step += 1
        note(state.step)
        state.commit()

train(state)
steps = state.step
"""
    + TAIL
)
WAYS = {"elastic.run": BY_RUN, "next_epoch": BY_HAND, "messages": BY_MESSAGES}


@pytest.mark.every_variant
@pytest.mark.parametrize("text", WAYS.values(), ids=WAYS)
def test_ddp_goes_on_without_rank_0_and_with_a_new_rank(text, program, tmp_path):
    folder = tmp_path / "steps"
    folder.mkdir()
    with RunningJob([*FLAGS, sys.executable, str(program(text)), str(folder)]) as job:
        output = job.finish()
    assert re.search(r"epoch 2: rank 0 \(host \S+\) was killed by SIGKILL", output), output
    ends = re.findall(r"weights (\d) 3 (\d+) \[(.*)\]", output)
    assert sorted(rank for rank, *_ in ends) == ["0", "1", "2"], output
    assert len({(steps, weights) for _, steps, weights in ends}) == 1, output
    wanted, sizes = weights_by_arithmetic(folder, int(ends[0][1]))
    assert [float(each) for each in ends[0][2].split(",")] == pytest.approx(wanted, rel=1e-4), output
    assert sizes[2] > 0 and sizes[3] >= 40, sizes
    if text == BY_RUN:
        assert output.count("old group: the ranks of the job have changed") >= 2, output


def test_groups_of_an_elastic_job_use_the_store_of_dabkerun(program):
    text = """
        import os, threading
        import torch, torch.distributed as dist
        from datetime import timedelta
        import dabke, dabke.distributed

        assert "MASTER_ADDR" not in os.environ and os.environ["LOCAL_RANK"] == os.environ["DABKE_LOCAL_RANK"]
        for time in range(2):
            dist.init_process_group("dabke")
            rank = dist.get_rank()
            for group in dist.new_group(backend="gloo"), dist.new_group([0, 1, 2]), dist.new_group([1, 2]):
                if group is not dist.GroupMember.NON_GROUP_MEMBER:
                    tensor = torch.tensor([rank + 1.0])
                    dist.all_reduce(tensor, group=group)
                    print(time, tensor.item(), flush=True)
            dist.destroy_process_group()
        print(dabke.is_initialized(), dabke.size(), flush=True)
    """
    done = ended([os.environ["DABKERUN"], *FLAGS, sys.executable, program(text)], 300)
    assert done.code == 0, done.output
    whole, pair = ["{} 6.0", "{} 6.0"], ["{} 5.0"]
    wanted = [[each.format(time) for time in (0, 1) for each in lines] for lines in (whole, whole + pair)]
    for rank in range(3):
        assert done.lines_of(rank) == wanted[rank > 0] + ["True 3"], done.output


def test_the_store_has_what_torch_expects_of_a_store(program):
    text = """
        import threading, time, torch.distributed as dist
        from datetime import timedelta
        import dabke, dabke.distributed
        from dabke.torch.distributed.epoch_store import open_epoch_store

        dabke.init()
        own = open_epoch_store()
        store = dist.PrefixStore("part/100%", own)  # torch's C++ parts call the store through this
        store.set_timeout(timedelta(seconds=60))
        store.set("k/a", "value")
        store.set("k", b"\\0\\xff")
        assert (store.get("k"), store.get("k/a")) == (b"\\0\\xff", b"value")
        assert [store.add("n", each) for each in (0, 5, -7, 1)] == [0, 5, -2, -1]
        part = lambda *keys: [f"part/100%/{each}" for each in keys]
        assert own.check(part("k", "n")) and not own.check(part("k", "none"))
        assert own.delete_key(*part("k")) and not own.delete_key(*part("k"))
        assert not own.check(part("k")) and own.check(part("k/a"))
        assert open_epoch_store().check(part("k/a")) is False

        threading.Timer(0.2, lambda: store.set("late", "yes")).start()
        store.wait(["late", "n"])
        begin = time.monotonic()
        for wait in (lambda: store.wait(["none"], timedelta(seconds=0.6)), lambda: own.compare_set("n", "1", "2")):
            try:
                wait()
            except (RuntimeError, NotImplementedError) as error:
                print(type(error).__name__, error, flush=True)
        assert time.monotonic() - begin >= 0.6
    """
    done = ended([os.environ["DABKERUN"], "-np", "1", "--min-np", "1", sys.executable, program(text)], 300)
    assert done.code == 0, done.output
    lines = done.lines_of(0)
    assert len(lines) == 2 and lines[0].startswith("TimedOutError") and "none" in lines[0], done.output
    assert lines[1].startswith("NotImplementedError") and "compare_set" in lines[1], done.output


def test_a_wait_in_the_store_ends_when_a_rank_is_lost(program):
    text = """
        import os, signal, dabke, dabke.distributed
        from dabke.torch.distributed.epoch_store import open_epoch_store

        dabke.init()
        store = open_epoch_store()
        if dabke.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            store.get("a key of rank 1")
        except dabke.HorovodInternalError as error:
            print(type(error).__name__, error, flush=True)
        dabke.next_epoch()
    """
    words = ["-np", "3", "--min-np", "2", sys.executable, program(text)]
    done = ended([os.environ["DABKERUN"], *words], 300)
    assert done.code == 0, done.output
    found = re.findall(r"PeerLostError rank 1 on \S+ ended with status 137", done.output)
    assert len(found) == 2, done.output
