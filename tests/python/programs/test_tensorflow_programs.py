"""TensorFlow in jobs of their own: what an import leaves to the program, small thread pools, lost ranks, the
example."""

import importlib.util
import json
import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed"
)
ROOT = Path(__file__).resolve().parents[3]
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0"}

# A pool of so many threads can only be chosen before TensorFlow has begun, so it also shows that import and
# init leave that to the program.
MANY = """
    import os, random, sys
    import dabke.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    tf.config.threading.set_inter_op_parallelism_threads(int(sys.argv[1]))
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
        for step in range(20):
            got = traced([tf.fill([i % 9 + 1], float(i * rank + step)) for i in range(160)])
            want = [i * size * (size - 1) / 2 + step * size for i in range(160)]
            assert [float(each[-1]) for each in got] == want
        print(way, "is right", flush=True)
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_160_tensors_in_any_order_need_one_thread(run, threads):
    ended = run(MANY, arguments=[threads], env=QUIET)
    assert ended.code == 0, ended.output
    for rank in range(2):
        assert ended.lines_of(rank) == ["async is right", "blocking is right"]


LOST = """
    import os, signal
    import dabke, dabke.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    hvd.allreduce(tf.ones([2]), name="first")
    if hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)

    @tf.function
    def call():
        return hvd.allreduce(tf.ones([2]), name="in a graph")

    try:
        call()
    except tf.errors.OpError as error:
        print(type(error).__name__, "rank 1" in str(error), flush=True)
    try:
        hvd.allreduce(tf.ones([2]), name="lost")
    except hvd.HorovodInternalError as error:
        print(type(error).__name__, "rank 1" in str(error), flush=True)
"""


def test_a_lost_rank_is_named_in_graphs_and_in_eager_mode(run):
    for way in ("async", "blocking"):
        ended = run(LOST, env={**QUIET, "DABKE_TENSORFLOW_KERNELS": way}, to_the_last=True)
        assert ended.lines_of(0) == ["AbortedError True", "PeerLostError True"], ended.output


HANGS = """
    import json, sys, threading
    import dabke, dabke.tensorflow as hvd
    import tensorflow as tf

    hvd.init(settings={"STALL_CHECK_TIME_SECONDS": 1, "STALL_SHUTDOWN_TIME_SECONDS": 5})
    hvd.allreduce(tf.ones([2]), name="first")
    over = threading.Event()

    def forgets_to_call():
        over.wait(12)  # longer than the limit of rank 0

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
    import json
    import numpy
    import dabke.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    random = numpy.random.default_rng(1)
    images, labels = random.normal(size=(5, 12, 20)), random.integers(0, 3, (5, 12))
    weight = tf.Variable(random.normal(size=(20, 3)))
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.1))
    hvd.broadcast_variables([weight], 0)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, x @ weight))
        optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])

    part = 12 // size
    for x, y in zip(images, labels):
        step(tf.constant(x[rank * part : (rank + 1) * part]), tf.constant(y[rank * part : (rank + 1) * part]))
    print(json.dumps(weight.numpy().ravel().tolist()), flush=True)
"""


def test_one_two_and_four_ranks_come_to_the_same_weights(run):
    seen = {}
    for ranks in (1, 2, 4):
        ended = run(WEIGHTS, ranks=ranks, env=QUIET)
        assert ended.code == 0, ended.output
        seen[ranks] = json.loads(ended.lines_of(0)[-1])
    for ranks in (2, 4):
        assert max(abs(a - b) for a, b in zip(seen[ranks], seen[1])) < 1e-6


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
    ended = run(text, arguments=["--epochs", "5", *data], env=QUIET)
    assert [line[:8] for line in ended.lines_of(0) if line.startswith("epoch")] == ["epoch  5"], ended.output
    assert os.listdir(tmp_path)
