"""Many collectives in one graph, in both ways: whatever the order on each rank, and whatever surrounds
them."""

import random

import numpy
import pytest

import dabke

tf = pytest.importorskip("tensorflow")
hvd = pytest.importorskip("dabke.tensorflow")
from dabke.tensorflow.gradient_reducer import GradientReducer  # noqa: E402
from dabke.tensorflow.naming import full_name  # noqa: E402

COUNT = 40  # 160 on small pools of threads: programs/test_tensorflow_programs.py


@pytest.fixture(params=["async", "blocking"])
def kernels(request, monkeypatch):
    monkeypatch.setenv("DABKE_TENSORFLOW_KERNELS", request.param)
    return request.param


def test_named_tensors_come_in_another_order_on_each_rank(job, kernels):
    order = list(range(COUNT))
    random.Random(job.rank).shuffle(order)

    @tf.function
    def call(values):
        results = [None] * COUNT
        for i in order:
            results[i] = hvd.allreduce(values[i], op=hvd.Sum, name=f"many.{i}")
        return results

    for step in range(3):
        got = call([tf.fill([i % 7 + 1], float(i * job.rank + step)) for i in range(COUNT)])
        want = [i * job.size * (job.size - 1) / 2 + step * job.size for i in range(COUNT)]
        assert [float(each[0]) for each in got] == want


@pytest.mark.two_ranks
def test_collectives_that_depend_on_each_other_by_a_variable_are_in_order(job, kernels):
    variable = tf.Variable(tf.ones([4]))

    @tf.function
    def steps():
        for i in range(3):
            own = variable.read_value() * (job.rank + 1)
            variable.assign(hvd.allreduce(own, op=hvd.Sum, name=f"chain.{i}"))
        return hvd.allreduce(variable, name="end"), hvd.allreduce(tf.ones(2), op=hvd.Sum, name="free")

    total = job.size * (job.size + 1) / 2
    for step in range(1, 3):
        last, free = steps()
        assert float(last[0]) == total ** (3 * step) and float(free[0]) == job.size


@pytest.mark.two_ranks
def test_functions_are_traced_in_another_order_on_each_rank(job, kernels):
    def make(number):
        @tf.function
        def call(x):
            return hvd.allreduce(x, op=hvd.Sum) + hvd.allreduce(2 * x, op=hvd.Sum)

        call.python_function.__name__ = f"call_{number}"
        return tf.function(call.python_function)

    functions = [make(number) for number in range(4)]
    order = functions if job.rank == 0 else functions[::-1]
    for function in order:
        function.get_concrete_function(tf.TensorSpec([3], tf.float32))
    for number, function in enumerate(functions):
        assert float(function(tf.fill([3], float(number)))[0]) == 3 * number * job.size


@pytest.mark.two_ranks
def test_names_in_a_function_are_counted_in_it(job):
    seen = []

    @tf.function
    def training_step():
        seen.extend(full_name("allreduce", None, 0) for _ in range(2))
        tf.cond(tf.constant(True), lambda: inner(), lambda: tf.constant(0))

    def inner():
        seen.append(full_name("allreduce", None, 0))
        return tf.constant(1)

    training_step()
    assert seen[:2] == ["allreduce.training_step.noname.0", "allreduce.training_step.noname.1"]
    assert seen[2] == "allreduce.training_step.cond_true.noname.0"


@pytest.mark.two_ranks
def test_loops_and_conditions_have_collectives(job, kernels):
    @tf.function
    def call(n, flag):
        total = tf.zeros([2])
        for i in tf.range(n):
            total += hvd.allreduce(tf.ones([2]) * tf.cast(i, tf.float32), op=hvd.Sum, name="loop")
        if flag:
            total = hvd.allreduce(total, name="branch")
        return total

    for flag in (True, False):
        assert float(call(tf.constant(5), tf.constant(flag))[0]) == 10 * job.size


@pytest.mark.two_ranks
def test_a_function_calls_another_one(job, kernels):
    @tf.function
    def inner(x):
        return hvd.allreduce(x, op=hvd.Sum, name="inner")

    @tf.function
    def outer(x):
        return hvd.allreduce(inner(x), op=hvd.Sum, name="outer")

    assert float(outer(tf.constant(1.0))) == job.size**2


@pytest.mark.two_ranks
def test_ticket_without_a_wait_leaves_nothing_behind(job, monkeypatch):
    """A graph that fails between the two ops of a collective."""
    monkeypatch.setenv("DABKE_TENSORFLOW_KERNELS", "blocking")

    @tf.function
    def call(x):
        y = hvd.allreduce(x, op=hvd.Sum, name="left")
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_sum(x) < 0, [x])]):
            return hvd.allreduce(tf.identity(x), name="not reached") + y

    for _ in range(3):
        with pytest.raises(tf.errors.InvalidArgumentError):
            call(tf.ones([1000]))
    dabke.barrier()
    assert float(hvd.allreduce(tf.constant(1.0), op=hvd.Sum, name="left")) == job.size


@pytest.mark.two_ranks
def test_results_do_not_change_the_inputs(job, kernels):
    """An output takes the memory of an input that nobody else uses, and of no other."""
    variable = tf.Variable(tf.ones([1000]))

    @tf.function
    def call(x):
        doubled = x * 2
        own = hvd.allreduce(doubled, op=hvd.Sum, name="doubled")
        again = hvd.allreduce(x, op=hvd.Sum, name="argument")
        of_variable = hvd.allreduce(variable, op=hvd.Sum, name="variable")
        return own, again, of_variable, x + 0, x * 2

    x = tf.ones([1000])
    for _ in range(3):
        got = [float(tf.reduce_max(each)) for each in call(x)]
        assert got == [2 * job.size, job.size, job.size, 1, 2]
    numpy.testing.assert_array_equal(variable, 1)
    numpy.testing.assert_array_equal(x, 1)


@pytest.mark.two_ranks
def test_a_thousand_variables(job, monkeypatch):
    """In two ops each, whose waits all come after all submits; and in eager mode as one group.

    AutoGraph is off, as for the reducer of a tape or an optimizer: it would rewrite each of the calls.
    """
    monkeypatch.setenv("DABKE_TENSORFLOW_KERNELS", "blocking")
    variables = [tf.Variable(tf.fill([i % 5 + 1], 1.0)) for i in range(1000)]
    reducer = GradientReducer(
        "a test", hvd.Compression.none, False, hvd.Average, 1.0, 0, None, hvd.global_process_set, True
    )

    def step():
        own = [variable * (job.rank + 1.0) for variable in variables]
        for variable, gradient in zip(variables, reducer.reduce("thousand", own, variables)):
            variable.assign_sub(gradient)

    for run in (step, tf.function(step, autograph=False)):
        run()
    want = (1 - (job.size + 1) / 2) ** 2
    assert all(float(each[0]) == want for each in variables)


def test_random_programs_give_what_one_process_computes(job, kernels):
    """Chains and sums of collectives by seed, against the same on plain numbers."""
    for seed in range(6 if job.size <= 2 else 2):
        got, want = [], []
        plan = random.Random(seed)
        steps = [
            (plan.choice("sum max root own".split()), plan.randrange(100), plan.randrange(100))
            for _ in range(20)
        ]

        def program(reduce, leaves):
            values = list(leaves)
            for number, (kind, a, b) in enumerate(steps):
                left, right = values[a % len(values)], values[b % len(values)]
                values.append(left + right if kind == "own" else reduce(kind, f"{seed}.{number}", left))
                values[-1] = values[-1] - 3 * (values[-1] // 3)  # stays small, and so exact
            return values

        def ours(kind, name, x):
            if kind == "root":
                return hvd.broadcast(x, 1, name=name)
            return hvd.allreduce(x, op=hvd.Sum if kind == "sum" else hvd.Max, name=name)

        def oracle(kind, name, x):
            every = {"sum": x.sum(0), "max": x.max(0), "root": x[1]}[kind]
            return numpy.broadcast_to(every, x.shape)

        leaves = numpy.arange(job.size * 3.0).reshape(job.size, 3)
        got = tf.function(lambda: program(ours, [tf.constant(leaves[job.rank]), tf.ones(3, tf.float64)]))()
        want = program(oracle, [leaves, numpy.ones((job.size, 3))])
        for mine, all_of_it in zip(got, want):
            numpy.testing.assert_array_equal(mine, all_of_it[job.rank], err_msg=f"seed {seed}")
