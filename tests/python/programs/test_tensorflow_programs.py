"""TensorFlow in jobs of their own: what an import leaves to the program, small thread pools, lost ranks, an
elastic job, the example."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from conftest import ended
from killed_rank_0 import RATE, weights_by_arithmetic

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed"
)
ROOT = Path(__file__).resolve().parents[3]
# Without the frameworks that tf.keras would import besides: each takes seconds.
ALONE = os.pathsep.join([str(ROOT / "tests/python/one_backend"), os.environ.get("PYTHONPATH", "")])
QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "KERAS_BACKEND": "tensorflow",
    "PYTHONPATH": ALONE,
}

# The size of the pool of threads can only be chosen before TensorFlow has begun, so it also shows that import
# and init leave that to the program.
MANY = """
    import os, random
    import dabke.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.set_visible_devices([], "GPU")
    rank, size = hvd.rank(), hvd.size()
    order = list(range(160))
    random.Random(rank).shuffle(order)

    def call(values):
        results = [None] * len(values)
        for i in order:
            results[i] = hvd.allreduce(values[i], op=hvd.Sum, name=str(i))
        return results

    for way in ("async", "blocking"):
        os.environ["DABKE_TENSORFLOW_KERNELS"] = way
        traced = tf.function(call)
        for step in range(10):
            got = traced([tf.fill([i % 9 + 1], float(i * rank + step)) for i in range(160)])
            want = [i * size * (size - 1) / 2 + step * size for i in range(160)]
            assert [each.numpy()[-1] for each in got] == want
        print(way, "is right", flush=True)
"""


def test_160_tensors_in_any_order_need_one_thread(run):
    ended = run(MANY, env=QUIET)
    assert ended.code == 0, ended.output
    for rank in range(2):
        assert ended.lines_of(rank) == ["async is right", "blocking is right"]


LOST = """
    import os, signal
    from concurrent.futures import ThreadPoolExecutor
    import dabke, dabke.tensorflow as hvd
    import tensorflow as tf

    hvd.init()

    def traced(way):
        os.environ["DABKE_TENSORFLOW_KERNELS"] = way
        function = tf.function(lambda: hvd.allreduce(tf.ones([2]), name=way))
        return function.get_concrete_function()

    ways = [traced(way) for way in ("async", "blocking")]
    for call in ways:
        call()
    if hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)

    def error_of(call):
        try:
            call()
        except tf.errors.OpError as error:
            return type(error).__name__, "rank 1" in str(error)

    with ThreadPoolExecutor() as threads:  # both wait for rank 1
        print(*threads.map(error_of, ways), flush=True)
    try:
        hvd.allreduce(tf.ones([2]), name="lost")
    except hvd.HorovodInternalError as error:
        print(type(error).__name__, "rank 1" in str(error), flush=True)
"""


def test_a_lost_rank_is_named_in_graphs_and_in_eager_mode(run):
    ended = run(LOST, env=QUIET, to_the_last=True)
    in_graphs = str(("AbortedError", True))
    assert ended.lines_of(0) == [f"{in_graphs} {in_graphs}", "PeerLostError True"], ended.output


# Rank 0 is killed between the two passes of a step. Once it is replaced, both ranks take ten steps.
ELASTIC = f"""
    import os, signal, sys, time
    import dabke, dabke.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    weights = tf.Variable(tf.fill([3], float(hvd.rank())))
    optimizer = hvd.DistributedOptimizer(
        tf.keras.optimizers.SGD({RATE}, momentum=0.5),
        backward_passes_per_step=2,
        average_aggregated_gradients=True,
    )
    optimizer.build([weights])
    state = hvd.elastic.TensorFlowState([weights, *optimizer.variables], step=0)

    @tf.function
    def one_pass(step, rank):
        data = tf.stack([tf.cast(step % 8, tf.float32), rank, 1.0])
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weights * data)
        optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])

    def one_step(epoch):
        data = tf.constant(state.step), tf.constant(float(epoch.rank))
        one_pass(*data)
        if (epoch.number, epoch.rank, state.step) == (1, 0, 6):
            os.kill(os.getpid(), signal.SIGKILL)
        hvd.allreduce(tf.zeros([1]), name="between")  # the other rank has one pass, too
        one_pass(*data)
        state.step += 1
        with open(f"{{sys.argv[1]}}/{{os.getpid()}}", "a") as log:
            print(epoch.number, state.step, epoch.size, file=log)

    @hvd.elastic.run
    def train(state):
        epoch = dabke.current_epoch()
        steps_here = 0
        while epoch.number == 1 or epoch.size == 1 or steps_here < 10:
            one_step(epoch)
            steps_here += 1
            if epoch.number > 1:
                time.sleep(0.01)
            if state.step % 4 == 0:
                state.commit()
        return epoch

    epoch = train(state)
    print("weights", epoch.rank, epoch.size, state.step, *weights.numpy(), flush=True)
"""


def test_an_elastic_job_that_loses_rank_0_ends_with_the_weights_of_an_unbroken_one(program, tmp_path):
    steps_of = tmp_path / "steps"
    steps_of.mkdir()
    flags = ["-np", "2", "--min-np", "1", "--max-np", "2", "--blacklist-cooldown-range", "0.1", "0.1"]
    command = [os.environ["DABKERUN"], *flags, sys.executable, program(ELASTIC), steps_of]
    done = ended(command, 300, {**QUIET, "DABKE_DUMP_DIR": str(tmp_path)})
    assert done.code == 0, done.output
    assert "epoch 2: rank 0" in done.output and "killed by SIGKILL" in done.output, done.output
    found = sorted(line.split()[1:] for line in done.output.splitlines() if ":weights " in line)
    assert [each[:2] for each in found] == [["0", "2"], ["1", "2"]] and found[0][2:] == found[1][2:], found
    weights, steps_by_size = weights_by_arithmetic(steps_of, int(found[0][2]), momentum=0.5)
    assert [float(each) for each in found[0][3:]] == pytest.approx(weights, rel=1e-5), done.output
    assert steps_by_size[1] > 0 and steps_by_size[2] > 10, steps_by_size


HANGS = """
    import json, sys, threading
    import dabke, dabke.tensorflow as hvd
    import tensorflow as tf

    hvd.init(settings={"STALL_CHECK_TIME_SECONDS": 1, "STALL_SHUTDOWN_TIME_SECONDS": 4})
    hvd.allreduce(tf.ones([2]), name="first")
    over = threading.Event()

    def forgets_to_call():
        over.wait(8)  # longer than the limit of rank 0

    def training_step():
        return traced()

    @tf.function
    def traced():
        return hvd.allreduce(tf.ones([2]), name="gradient")

    if hvd.rank() == 1:
        forgets_to_call()
    try:
        training_step()
    except tf.errors.DeadlineExceededError as error:
        print("gradient" in str(error), flush=True)
"""


def test_a_hang_report_has_the_stack_of_the_rank_that_is_waited_for(run):
    ended = run(HANGS, env=QUIET)
    assert "in forgets_to_call" in ended.output, ended.output
    assert ended.lines_of(0) == ["True"], ended.output


WEIGHTS = """
    import numpy
    import dabke.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    random = numpy.random.default_rng(1)
    images, labels = random.normal(size=(5, 12, 20)), random.integers(0, 3, (5, 12))
    start = random.normal(size=(20, 3))

    def trained(optimizer):
        weight = tf.Variable(start)
        hvd.broadcast_variables([weight], 0)

        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, x @ weight))
            optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])

        for x, y in zip(images, labels):
            step(tf.constant(x), tf.constant(y))
        return weight.numpy()

    plain = trained(tf.keras.optimizers.Adam(0.1))
    ours = trained(hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.1)))
    print(abs(ours - plain).max() < 1e-6 < abs(plain - start).max(), hvd.size(), flush=True)
"""


def test_one_rank_comes_to_the_weights_of_plain_tensorflow(run):
    """The same for more ranks: in_job/test_tensorflow_training.py."""
    ended = run(WEIGHTS, ranks=1, env=QUIET)
    assert ended.code == 0 and ended.lines_of(0) == ["True 1"], ended.output


def test_the_example_learns_and_goes_on_from_its_checkpoint(run, tmp_path):
    text = (ROOT / "examples" / "tensorflow_digits.py").read_text()
    data = [
        "--data",
        str(ROOT / "examples" / "data" / "digits.csv"),
        "--checkpoint",
        str(tmp_path / "digits"),
    ]
    ended = run(text, arguments=["--epochs", "4", *data], env=QUIET)
    assert ended.code == 0, ended.output
    last = [line for line in ended.lines_of(0) if line.startswith("epoch")][-1]
    assert float(last.split("accuracy ")[1].split(" ")[0]) > 85, ended.output
    ended = run(text, ranks=1, arguments=["--epochs", "5", *data], env=QUIET)
    assert [line[:8] for line in ended.lines_of(0) if line.startswith("epoch")] == ["epoch  5"], ended.output
    assert os.listdir(tmp_path)
