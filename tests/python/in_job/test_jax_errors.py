"""Faults in dabke.jax are exceptions with the runtime's text on every rank, and the next call
works."""

import dabke
import ctypes

import numpy
import pytest

jax = pytest.importorskip("jax")
hvd = pytest.importorskip("dabke.jax")
ffi = pytest.importorskip("dabke.jax.ffi")
jnp = jax.numpy
pytestmark = pytest.mark.two_ranks


@pytest.mark.parametrize("size", [3, 30_000], ids=["small", "large"])
def test_a_mismatch_in_a_program_is_our_exception_with_the_whole_text(job, size):
    program = jax.jit(lambda x: hvd.allreduce(x, hvd.Sum, "shape"))
    with pytest.raises(dabke.errors.MismatchError, match="(?s)shape.*rank"), hvd.dabke_errors():
        program(jnp.ones(size + job.rank)).block_until_ready()
    with pytest.raises(dabke.errors.MismatchError, match="shape"), hvd.dabke_errors():
        hvd.synchronize(program(jnp.ones(size + job.rank)))
    with pytest.raises(dabke.errors.MismatchError, match="shape"), hvd.dabke_errors():
        numpy.asarray(program(jnp.ones(size + job.rank)))
    assert float(program(jnp.ones(size))[0]) == job.size


def test_a_mismatch_outside_of_programs(job):
    with pytest.raises(dabke.errors.MismatchError, match="dtype"):
        hvd.allreduce(jnp.ones(2, "float32" if job.rank else "int32"), name="dtype")
    assert float(hvd.allreduce(jnp.ones(1))[0]) == 1


@pytest.mark.parametrize("way", ["jit", "grad"])
def test_uneven_rows_in_a_program_are_refused_on_all_ranks(job, way):
    x = jnp.ones((2 + job.rank, 2))
    program = jax.jit(lambda x: hvd.allgather(x, "uneven").sum())
    with pytest.raises(hvd.DabkeError, match=r"(?s)allgather.*uneven"), hvd.dabke_errors():
        (program if way == "jit" else jax.grad(lambda x: hvd.allgather(x, "uneven").sum()))(
            x
        ).block_until_ready()
    assert hvd.allgather(jnp.ones((1, 1))).shape == (job.size, 1)


def test_what_a_trace_refuses(job):
    with pytest.raises(hvd.DabkeError, match="cannot be divided evenly"):
        jax.jit(hvd.alltoall)(jnp.ones((job.size + 1, 2)))
    with pytest.raises(hvd.DabkeError, match="outside of jit"):
        jax.jit(lambda x: hvd.alltoall(x, splits=[1] * job.size))(jnp.ones((job.size, 2)))
    with pytest.raises(hvd.DabkeError, match="is a scalar"):
        jax.jit(hvd.allgather)(jnp.float32(1))
    with pytest.raises(hvd.DabkeError, match="is a scalar"):
        jax.jit(jax.vmap(hvd.allgather))(jnp.ones(3))
    for call in (hvd.barrier, hvd.join):
        with pytest.raises(hvd.DabkeError, match="no data"):
            jax.jit(lambda x, call=call: (call(), x)[1])(jnp.ones(1))


def test_what_has_no_dtype_of_ours_is_refused(job):
    with pytest.raises(hvd.DabkeError, match="complex64"):
        hvd.allreduce(jnp.ones(2, "complex64"), name="complex")
    with pytest.raises(hvd.DabkeError, match="(?s)complex.*dtype that Dabke lacks"), hvd.dabke_errors():
        jax.jit(lambda x: hvd.allreduce(x, name="complex"))(jnp.ones(2, "complex64")).block_until_ready()
    with pytest.raises(hvd.DabkeError, match="jax.random.key_data"):
        hvd.broadcast(jax.random.key(0), 0)


def test_arguments_that_make_no_sense(job):
    with pytest.raises(hvd.DabkeError, match="root"):
        hvd.broadcast(jnp.ones(1), job.size)
    with pytest.raises(hvd.DabkeError, match="(?s)root"), hvd.dabke_errors():
        jax.jit(lambda x: hvd.broadcast(x, job.size))(jnp.ones(1)).block_until_ready()
    with pytest.raises(hvd.DabkeError, match="one array"):
        hvd.alltoall([jnp.ones(job.size)] * 2, splits=[1] * job.size)


def test_an_error_of_jax_itself_stays_its_own(job):
    def refuse(x):
        raise RuntimeError("the program's own")

    program = jax.jit(lambda x: jax.pure_callback(refuse, jax.ShapeDtypeStruct((), "float32"), x))
    with pytest.raises(jax.errors.JaxRuntimeError, match="the program's own"), hvd.dabke_errors():
        program(jnp.float32(1)).block_until_ready()


def test_the_version_of_the_interface_is_reported(job):
    jax.jit(hvd.allreduce)(jnp.ones(1)).block_until_ready()
    major, minor = hvd.api_version()
    assert major == 0 and minor >= 1


def test_an_interface_that_is_too_old_is_an_error_that_says_so(job):
    """A frame as a jaxlib with version 0.0 of the interface would make it; its api makes the error."""
    word, text = ctypes.c_size_t, []

    class ErrorArguments(ctypes.Structure):
        _fields_ = [
            ("size", word),
            ("extensions", word),
            ("message", ctypes.c_char_p),
            ("code", ctypes.c_int),
        ]

    @ctypes.CFUNCTYPE(word, ctypes.POINTER(ErrorArguments))
    def error_create(arguments):
        text.append(arguments.contents.message.decode())
        return 1

    class Api(ctypes.Structure):
        _fields_ = [
            *[(name, word) for name in ("size", "extensions", "version_size", "version_extensions")],
            *[(name, ctypes.c_int) for name in ("major", "minor")],
            *[(name, word) for name in ("internal", "error_create")],
        ]

    class Frame(ctypes.Structure):
        _fields_ = [
            *[(name, word) for name in ("size", "extensions", "api", "execution")],
            ("stage", ctypes.c_int),
            ("rest", word * 16),
        ]

    handler = ffi.load().dabke_jax_allreduce
    handler.restype = ctypes.c_void_p
    api = Api(minor=0, size=ctypes.sizeof(Api), error_create=ctypes.cast(error_create, ctypes.c_void_p).value)
    frame = Frame(size=ctypes.sizeof(Frame), api=ctypes.addressof(api), stage=3)
    assert handler(ctypes.byref(frame)) == 1
    assert text == [
        "[dabke unsupported] the FFI of this jaxlib has version 0.0, dabke.jax needs 0.1 or a later 0.x; "
        "install jaxlib 0.5.0 or newer"
    ]


def test_results_can_be_changed_and_kept(job):
    """Memory of the runtime that JAX has taken over is its own: it outlives the call and is not written
    again."""
    kept = [hvd.allgather(jnp.full((4, 16), float(turn))) for turn in range(10)]
    for turn, each in enumerate(kept):
        numpy.testing.assert_array_equal(each, numpy.full((4 * job.size, 16), float(turn)))


@pytest.mark.parametrize("name", ["w\0a", "w\udc80"], ids=["NUL", "no UTF-8"])
@pytest.mark.parametrize(
    "call",
    [
        lambda x, name: hvd.allreduce(x, name=name),
        lambda x, name: hvd.allreduce({"a": x, "b": x}, name=name),
        lambda x, name: hvd.allgather(x, name=name),
        lambda x, name: hvd.broadcast(x, 0, name=name),
        lambda x, name: hvd.alltoall(x, name=name),
        lambda x, name: hvd.reducescatter(x, name=name),
    ],
    ids=["allreduce", "tree", "allgather", "broadcast", "alltoall", "reducescatter"],
)
@pytest.mark.parametrize("way", [lambda call: call, jax.jit], ids=["direct", "jit"])
def test_a_name_that_would_be_cut_or_has_no_utf8_is_refused_and_shown(way, call, name):
    x = jnp.ones(2 * dabke.size())
    with pytest.raises(dabke.errors.InvalidArgumentError) as refused:
        way(lambda x: call(x, name))(x)
    assert name.encode("unicode_escape").decode() in str(refused.value)
    assert str(refused.value).isprintable()


def test_a_name_of_several_lines_is_refused_in_a_program_alone(job):
    assert hvd.allreduce(jnp.ones(1), hvd.Sum, "a\nb").tolist() == [job.size]
    with pytest.raises(dabke.errors.InvalidArgumentError, match=r"'allreduce\.a\\nb'.*line"):
        jax.jit(lambda x: hvd.allreduce(x, hvd.Sum, "a\nb"))(jnp.ones(1))
