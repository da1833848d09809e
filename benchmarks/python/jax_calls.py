#!/usr/bin/env python3
"""Measures allreduces in jitted programs of JAX, beside the same through the C API and other libraries.

    dabkerun -np 2 python benchmarks/python/jax_calls.py [--rounds 31] [--gloo]
    mpirun -np 2 python benchmarks/python/jax_calls.py --mpi4jax

The first table has 8 bytes; its figures are means of many calls. The second has the gradients of a ResNet-50
as one pytree, with donated arrays and with arrays that the caller keeps. The C API reduces them as one group,
in place and not. All ways run in turns.
"""

import argparse
import functools

import jax
import jax.numpy as jnp
import numpy as np
from gradients import IN_PLACE, KEPT, groups_of_c, resnet50_shapes
from turns import measure, print_table

import dabke.jax as hvd

CALLS = 200


def psum_over_gloo():
    """A program over all ranks' devices, and this rank's part of its argument."""
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()), ("ranks",))
    sharding = NamedSharding(mesh, PartitionSpec("ranks"))
    own = jax.device_put(jnp.ones((1, 2), jnp.float32), jax.local_devices()[0])
    whole = jax.make_array_from_single_device_arrays((hvd.size(), 2), sharding, [own])
    add = functools.partial(jax.lax.psum, axis_name="ranks")
    parts = {"mesh": mesh, "in_specs": PartitionSpec("ranks"), "out_specs": PartitionSpec()}
    return jax.jit(jax.shard_map(add, **parts)), whole


def small_calls(options):
    x = jnp.ones(2, jnp.float32)
    programs = {
        "an empty program": (jax.jit(lambda x: x + 1), x),
        "dabke.jax": (jax.jit(lambda x: hvd.allreduce(x, hvd.Sum, "small")), x),
    }
    if options.gloo:
        programs["psum over JAX's own Gloo"] = psum_over_gloo()
    if options.mpi4jax:
        import mpi4jax
        from mpi4py import MPI

        programs["mpi4jax"] = jax.jit(lambda x: mpi4jax.allreduce(x, op=MPI.SUM)), x

    def call_of(program, argument):
        return lambda: program(argument).block_until_ready()

    ways = {name: call_of(*each) for name, each in programs.items()}
    seen = measure(ways, options.rounds, CALLS)
    empty = seen.pop("an empty program")
    rows = [("an empty program", empty, None)]
    for name, figures in seen.items():
        rows += [(name, figures, empty), (f"{name}, less an empty program", figures.less(empty), None)]
    print_table("8 bytes under jit", rows, "us")


def gradients(options):
    shapes = resnet50_shapes()
    tree = {f"p{i}": jnp.ones(shape) for i, shape in enumerate(shapes)}
    kept = jax.jit(lambda tree: hvd.allreduce(tree, hvd.Average, "kept"))
    donated = jax.jit(lambda tree: hvd.allreduce(tree, hvd.Average, "donated"), donate_argnums=0)
    empty = jax.jit(lambda tree: jax.tree_util.tree_map(jnp.asarray, tree), donate_argnums=0)
    state = [jax.tree_util.tree_map(lambda each: each + 0, tree) for _ in range(2)]

    def donate(program, place):
        state[place] = jax.block_until_ready(program(state[place]))

    ways = {
        **groups_of_c("c", shapes),
        "donated": lambda: donate(donated, 0),
        "kept": lambda: jax.block_until_ready(kept(tree)),
        "empty": lambda: donate(empty, 1),
    }
    seen = measure(ways, options.rounds)
    print_table(
        "gradients of a ResNet-50",
        [
            (KEPT, seen[KEPT], None),
            (IN_PLACE, seen[IN_PLACE], seen[KEPT]),
            ("a pytree under jit, donated", seen["donated"], seen[IN_PLACE]),
            ("a pytree under jit, kept", seen["kept"], seen[KEPT]),
            ("an empty program of the same pytree, donated", seen["empty"], seen[IN_PLACE]),
        ],
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=31, help="of each way (default: 31)")
    parser.add_argument("--gloo", action="store_true", help="measure JAX's own collectives, too")
    parser.add_argument("--mpi4jax", action="store_true", help="measure mpi4jax, too; needs mpirun")
    options = parser.parse_args()
    hvd.init()
    if options.gloo:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize()
    small_calls(options)
    gradients(options)


if __name__ == "__main__":
    main()
