"""PyTorch in jobs of its own: Horovod's rules from `init`, programs written for Horovod, the example."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[4]


def test_a_job_follows_horovods_rules_unless_told_otherwise(run):
    ended = run("""
        import sys, torch, dabke.torch as hvd
        arguments = dict(pair.split('=') for pair in sys.argv[1:])
        hvd.init(**arguments)
        hvd.init()  # does nothing
        if hvd.rank() == 0:
            handle = hvd.allreduce_async(torch.ones(2), name='x')
            try:
                second = hvd.allreduce_async(torch.ones(2), name='x')
                print('queued')
                hvd.synchronize(second)
            except ValueError as error:
                print('refused', type(error).__name__)
            hvd.broadcast_object('go on')
            hvd.synchronize(handle)
        else:
            hvd.broadcast_object(None)
            hvd.allreduce(torch.ones(2), name='x')
        hvd.join()
    """)
    assert ended.code == 0, ended.output
    assert ended.lines_of(0) == ["refused DuplicateNameError"]


@pytest.mark.parametrize("join, expected", [("horovod", "0.5"), ("dabke", "1.0")])
def test_an_average_beside_a_joined_rank_is_what_init_says(run, join, expected):
    ended = run(f"""
        import torch, dabke.torch as hvd
        hvd.init(join='{join}')
        if hvd.rank() == 0:
            print(hvd.allreduce(torch.ones(1)).item())
        hvd.join()
    """)
    assert ended.code == 0, ended.output
    assert ended.lines_of(0) == [expected]


def test_a_sparse_average_leaves_out_who_has_joined_as_a_dense_one_does(run):
    ended = run("""
        import torch, dabke.torch as hvd
        hvd.init(join='dabke')
        if hvd.rank() == 0:
            print(hvd.sparse_allreduce_async(torch.ones(1).to_sparse(), 'x', hvd.Average)().to_dense().item())
        hvd.join()
    """)
    assert ended.code == 0, ended.output
    assert ended.lines_of(0) == ["1.0"]


def test_the_environment_counts_where_init_says_nothing(run):
    ended = run(
        """
        import torch, dabke.torch as hvd
        hvd.init()
        if hvd.rank() == 0:
            print(hvd.allreduce(torch.ones(1)).item())
        hvd.join()
    """,
        env={"DABKE_JOIN": "dabke"},
    )
    assert ended.lines_of(0) == ["1.0"], ended.output


def test_before_init_and_after_shutdown_calls_are_refused(run):
    ended = run(
        """
        import torch, dabke.torch as hvd
        def refused(call):
            try:
                call()
            except ValueError as error:
                return type(error).__name__
        model = torch.nn.Linear(2, 2)
        calls = [hvd.rank, lambda: hvd.allreduce(torch.ones(2)), lambda: hvd.broadcast_object(1),
                 lambda: hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0))]
        print({refused(call) for call in calls})
        hvd.init()
        hvd.shutdown()
        print({refused(call) for call in calls})
    """,
        ranks=1,
    )
    assert ended.lines_of(0) == ["{'NotInitializedError'}"] * 2, ended.output


def test_an_error_in_a_backward_pass_is_the_first_cause_everywhere(run):
    ended = run("""
        import torch, dabke.torch as hvd
        hvd.init()
        model = torch.nn.Linear(2, 1)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        for step in range(3):
            data = torch.ones(3, 2)
            if hvd.rank() == 1 and step == 1:
                data = torch.ones(3, 5)
            optimizer.zero_grad()
            model(data).sum().backward()
            optimizer.step()
    """)
    assert ended.code != 0
    assert "rank 1" in ended.output and "train.py:" in ended.output


MNIST_LIKE = """
    import argparse
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    import torch.optim as optim
    from torch.utils.data import TensorDataset
    import torch.utils.data.distributed
    import {module} as hvd

    class Net(nn.Module):
        def __init__(self):
            super(Net, self).__init__()
            self.conv1 = nn.Conv2d(1, 10, kernel_size=3)
            self.conv2_drop = nn.Dropout2d(p=0.1)
            self.fc1 = nn.Linear(90, 50)
            self.fc2 = nn.Linear(50, 4)

        def forward(self, x):
            x = F.relu(F.max_pool2d(self.conv2_drop(self.conv1(x)), 2))
            x = x.view(-1, 90)
            return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)

    hvd.init()
    torch.manual_seed(42)
    torch.set_num_threads(1)
    labels = torch.arange(256) % 4
    images = torch.randn(256, 1, 8, 8) * 0.3
    for label in range(4):
        images[labels == label, 0, 2 * label:2 * label + 2] += 2
    dataset = TensorDataset(images, labels)
    sampler = torch.utils.data.distributed.DistributedSampler(dataset, num_replicas=hvd.size(), rank=hvd.rank())
    loader = torch.utils.data.DataLoader(dataset, batch_size=16, sampler=sampler)
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.05 * hvd.size(), momentum=0.5)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(),
                                         compression=hvd.Compression.fp16, op=hvd.Average, gradient_predivide_factor=1.0)

    def metric_average(val, name):
        tensor = torch.tensor(val)
        avg_tensor = hvd.allreduce(tensor, name=name)
        return avg_tensor.item()

    for epoch in range(1, 4):
        model.train()
        sampler.set_epoch(epoch)
        for data, target in loader:
            optimizer.zero_grad()
            loss = F.nll_loss(model(data), target)
            loss.backward()
            optimizer.step()
    model.eval()
    accuracy = metric_average((model(images).argmax(1) == labels).float().mean().item(), 'avg_accuracy')
    if hvd.rank() == 0:
        print(accuracy > 0.95)
"""


def test_a_program_written_for_horovod_trains_with_one_line_changed(run):
    ended = run(MNIST_LIKE.replace("{module}", "dabke.torch"))
    assert ended.code == 0 and ended.lines_of(0) == ["True"], ended.output


def test_a_program_written_for_horovod_trains_unchanged_with_the_other_distribution(run):
    alias = {
        "PYTHONPATH": os.pathsep.join(
            [str(ROOT / "bindings/python/horovod_alias"), os.environ.get("PYTHONPATH", "")]
        )
    }
    ended = run(MNIST_LIKE.replace("{module}", "horovod.torch"), env=alias)
    assert ended.code == 0 and ended.lines_of(0) == ["True"], ended.output
    ended = run(
        """
        import horovod, horovod.torch as hvd
        import horovod.torch.mpi_ops, horovod.torch.elastic
        from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
        from horovod.common.process_sets import ProcessSet
        from horovod.common.util import num_rank_is_power_2, split_list, gpu_available
        from horovod.runner import run
        from horovod.torch.compression import Compression
        from horovod.torch.functions import broadcast_object
        from horovod.torch.mpi_ops import rank, size, Average
        from horovod.torch.optimizer import DistributedOptimizer
        from horovod.torch.sync_batch_norm import SyncBatchNorm
        import dabke.torch
        assert hvd.DistributedOptimizer is DistributedOptimizer is dabke.torch.DistributedOptimizer
        assert hvd.elastic.run and horovod.run is run and ProcessSet is hvd.ProcessSet
        from horovod.common.elastic import ObjectState, run_fn
        from horovod.torch.elastic.sampler import ElasticSampler
        from horovod.torch.elastic.state import TorchState
        assert TorchState is hvd.elastic.TorchState is dabke.torch.elastic.TorchState
        assert ElasticSampler is hvd.elastic.ElasticSampler
        assert HostsUpdatedInterrupt is hvd.HostsUpdatedInterrupt is hvd.elastic.HostsUpdatedInterrupt
        hvd.init()
        state = ObjectState(bcast_object=hvd.broadcast_object, get_rank=hvd.rank, step=3)
        assert run_fn(lambda state, more: state.step + more, reset=None)(state, 4) == 7
        assert split_list([1, 2, 3], 2) == [[1, 2], [3]] and num_rank_is_power_2(4) and not num_rank_is_power_2(6)
        try:
            run(print, hostfile='hosts', np=1)
        except NotImplementedError as error:
            print(error)
    """,
        ranks=0,
        env=alias,
    )
    assert ended.code == 0 and "horovod.run: hostfile is not supported yet" in ended.output, ended.output


# The modules that scripts written for Horovod import, each with one name that they take from it.
HOROVODS_MODULES = """
horovod.run
horovod.common.basics.HorovodBasics horovod.common.elastic.State horovod.common.exceptions.HorovodInternalError
horovod.common.process_sets.ProcessSet horovod.common.util.gpu_available horovod.common.util.extension_available
horovod.common.util.check_installed_version
horovod.torch.init horovod.torch.compression.Compression horovod.torch.functions.broadcast_object
horovod.torch.mpi_ops._handle_map horovod.torch.optimizer.DistributedOptimizer
horovod.torch.sync_batch_norm.SyncBatchNorm horovod.torch.elastic.TorchState horovod.torch.elastic.sampler.ElasticSampler
horovod.torch.elastic.state.TorchState
horovod.tensorflow.init horovod.tensorflow.compression.Compression horovod.tensorflow.elastic.run
horovod.tensorflow.functions.broadcast_object horovod.tensorflow.gradient_aggregation.LocalGradientAggregationHelper
horovod.tensorflow.gradient_aggregation_eager.LocalGradientAggregationHelperEager
horovod.tensorflow.mpi_ops.allreduce horovod.tensorflow.sync_batch_norm.SyncBatchNormalization horovod.tensorflow.util.executing_eagerly
horovod.tensorflow.keras.DistributedOptimizer horovod.tensorflow.keras.callbacks.MetricAverageCallback
horovod.tensorflow.keras.elastic.KerasState horovod.keras.init horovod.keras.callbacks.MetricAverageCallback
horovod.keras.elastic.KerasState
horovod.runner.run horovod.runner.launch.run_commandline horovod.runner.gloo_run.launch_gloo
horovod.runner.mpi_run.mpi_run horovod.runner.js_run.js_run horovod.runner.run_task.main horovod.runner.task_fn.task_exec
horovod.runner.common.util.codec.dumps_base64 horovod.runner.common.util.config_parser.set_args_from_config
horovod.runner.common.util.env.get_env_rank_and_size horovod.runner.common.util.hosts.parse_hosts
horovod.runner.common.util.host_hash.host_hash horovod.runner.common.util.network.Wire
horovod.runner.common.util.safe_shell_exec.execute horovod.runner.common.util.secret.make_secret_key
horovod.runner.common.util.settings.Settings horovod.runner.common.util.timeout.Timeout
horovod.runner.common.util.tiny_shell_exec.execute
horovod.runner.elastic.constants.RESET_LIMIT horovod.runner.elastic.discovery.HostManager horovod.runner.elastic.driver.ElasticDriver
horovod.runner.elastic.registration.WorkerStateRegistry horovod.runner.elastic.rendezvous.ElasticRendezvousHandler
horovod.runner.elastic.settings.ElasticSettings horovod.runner.elastic.worker.WorkerNotificationManager
horovod.runner.util.cache.Cache horovod.runner.util.lsf.LSFUtils horovod.runner.util.network.get_local_host_addresses
horovod.runner.util.remote.get_remote_command horovod.runner.util.streams.Pipe horovod.runner.util.threads.in_thread
horovod.ray.RayExecutor
""".split()


def test_every_module_of_horovod_can_be_imported_and_what_has_no_meaning_is_refused_where_it_is_used(run):
    alias = {
        "PYTHONPATH": os.pathsep.join(
            [str(ROOT / "bindings/python/horovod_alias"), os.environ.get("PYTHONPATH", "")]
        )
    }
    ended = run(
        f"""
        for path in {HOROVODS_MODULES}:
            module, _, name = path.rpartition(".")
            exec(f"import {{module}}")  # as a statement, which also binds it in its package
            exec(f"from {{module}} import {{name}}")
            thing = eval(path)
            if type(thing).__name__ != "_Absent":
                continue
            for use in ("thing()", "thing.RANK", "class Own(thing): pass"):
                try:
                    exec(use)
                except NotImplementedError as error:
                    assert str(error).startswith(path + ": ") and "; use dabke" in str(error), error
                else:
                    raise SystemExit(path + " is not refused")
            print("refused", path)
        from horovod.runner.util.threads import in_thread
        seen = []
        in_thread(seen.append, (3,)).join()
        in_thread(lambda: 1 // 0, silent=True).join()
        from horovod.common.basics import HorovodBasics
        from horovod.common.util import check_installed_version, extension_available
        from horovod.runner.common.util.env import get_env_rank_and_size
        check_installed_version("torch", "1.0")
        basics = HorovodBasics(__file__, "mpi_lib_v2")
        basics.init()
        import importlib.util
        has_tensorflow = importlib.util.find_spec("tensorflow") is not None
        print(seen, extension_available("torch"), extension_available("tensorflow") == has_tensorflow,
              extension_available("mxnet"), get_env_rank_and_size() == (basics.rank(), basics.size()))
        try:
            import horovod.nothing_of_this_name
        except ImportError:
            print("unknown")
    """,
        env=alias,
    )
    assert ended.code == 0, ended.output
    assert ended.lines_of(1)[-2:] == ["[3] True True False True", "unknown"], ended.output
    refused = [line.split()[1] for line in ended.lines_of(1) if line.startswith("refused")]
    served = {
        "horovod.runner",
        "horovod.runner.launch",
        "horovod.runner.common.util.env",
        "horovod.runner.util.threads",
    }
    if importlib.util.find_spec("tensorflow"):
        served |= {
            f"horovod.tensorflow{each}"
            for each in (
                "",
                ".compression",
                ".elastic",
                ".functions",
                ".gradient_aggregation",
                ".mpi_ops",
                ".sync_batch_norm",
            )
        }
    if importlib.util.find_spec("keras"):
        served |= {
            f"horovod.{parent}{each}"
            for parent in ("keras", "tensorflow.keras")
            for each in ("", ".callbacks", ".elastic")
        }
    assert refused == [
        each
        for each in HOROVODS_MODULES
        if each.rpartition(".")[0] not in served
        and each.startswith(("horovod.tensorflow", "horovod.keras", "horovod.ray", "horovod.runner."))
    ]


def test_the_example_reaches_its_accuracy_and_goes_on_from_a_checkpoint(tmp_path):
    command = [
        os.environ["DABKERUN"],
        "-np",
        "2",
        sys.executable,
        str(ROOT / "examples/pytorch_digits.py"),
        "--checkpoint",
        str(tmp_path / "digits.pt"),
    ]
    for arguments, first in ((["--epochs", "8"], "epoch  1/8"), (["--epochs", "9"], "epoch  9/9")):
        done = subprocess.run(command + arguments, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        lines = done.stdout.splitlines()
        assert first in lines[1], done.stdout
        assert float(lines[-1].split()[-2]) >= 96


def test_a_compiled_model_trains(run):
    import torch

    if not hasattr(torch, "compile"):
        pytest.skip("this version of PyTorch has no torch.compile")
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("torch.compile needs a C++ compiler")
    ended = run(
        """
        import torch, dabke.torch as hvd
        hvd.init()
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 1)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        compiled, data = torch.compile(model), torch.randn(8, 4) + hvd.rank()
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = compiled(data).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(hvd.metric_average(loss))
        same = hvd.allgather(model.weight.detach())
        print(losses[-1] < losses[0] and torch.equal(same[0], same[1]))
    """,
        limit=600,
        env={"TORCHINDUCTOR_COMPILE_THREADS": "1"},  # more processes would each import PyTorch
    )
    assert ended.code == 0 and ended.lines_of(0) == ["True"], ended.output


@pytest.mark.parametrize("marks, steps", [(False, [0, 1, 2, 3, 4]), (True, [70, 71, 72, 73, 74])])
def test_the_first_optimizer_marks_the_steps_of_a_program_that_marks_none(run, tmp_path, marks, steps):
    ended = run(
        f"""
        import torch, dabke, dabke.torch as hvd
        hvd.init()
        models = [torch.nn.Linear(3, 2) for _ in range(2)]
        first, second = (hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                                  [(f"{{i}}.{{name}}", each) for name, each in model.named_parameters()])
                         for i, model in enumerate(models))
        for step in range(5):
            if {marks}:
                dabke.mark_step(70 + step)
            for model, optimizer in zip(models, (first, second)):
                optimizer.zero_grad()
                model(torch.ones(4, 3)).sum().backward()
                optimizer.step()
        hvd.shutdown()
    """,
        env={"DABKE_TIMELINE": str(tmp_path / "trace.json")},
    )
    assert ended.code == 0, ended.output
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    marked = [event["args"]["step"] for event in events if event["name"] == "STEP" and event["pid"] == 1]
    assert marked == steps


def test_operations_show_in_a_profile_from_their_submission_to_their_end(run, tmp_path):
    done = run(f'''
        import time, torch, dabke.torch as hvd
        from torch.profiler import ProfilerActivity, profile
        hvd.init()
        model = torch.nn.Linear(4, 2)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model.named_parameters())
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            if hvd.rank() == 0:
                early = hvd.allreduce_async(torch.ones(1000), name='waits')
                hvd.broadcast(torch.ones(4), 0)
            else:
                hvd.broadcast(torch.ones(4), 0)
                time.sleep(0.2)
                early = hvd.allreduce_async(torch.ones(1000), name='waits')
            hvd.synchronize(early)
            model(torch.ones(1, 4)).sum().backward()
            optimizer.step()
            hvd.barrier()
        profiled.export_chrome_trace(f"{tmp_path}/rank{{hvd.rank()}}.json")
        hvd.shutdown()
    ''')
    assert done.code == 0, done.output
    trace = json.loads((tmp_path / "rank0.json").read_text())  # a list in a PyTorch without Kineto
    events = [
        event
        for event in (trace["traceEvents"] if isinstance(trace, dict) else trace)
        if str(event.get("name")).startswith("dabke:") and event.get("ph") == "X"
    ]
    names = [event["name"] for event in events]
    assert names.count("dabke:broadcast") == 1 and names.count("dabke:allreduce") >= 2, names
    longest = max(event["dur"] for event in events if event["name"] == "dabke:allreduce")
    assert 150_000 < longest, events  # rank 1 comes 200 ms later
    assert max(event["dur"] for event in events if event["name"] == "dabke:broadcast") < longest, events
