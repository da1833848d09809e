// Collectives of small messages, in as few steps as there can be: about log2 of the number of ranks.
//
//   allreduce   recursive doubling: in step k, places that differ in bit k alone exchange what each has of
//               its block of 2^k places, and both compute (lower block) op (higher block). So all ranks have
//               the same bits, and the same in every run. Where their number is no power of two, p being the
//               largest below, place p + i first gives its data to place i and gets the result at the end.
//   broadcast   a binomial tree from the root
//   allgather   in step k, each has the blocks of 2^k places from its own on, gives them to the place 2^k
//               before it and gets as many from the place 2^k after it
//   barrier     the same with nothing in it
//   source      Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations in
//               MPICH";
//               Bruck et al. 1997, "Efficient algorithms for all-to-all communications in multiport systems"
#pragma once

#include "ops/tcp/tcp_mesh.h"
#include "runtime/backend/packer.h"

namespace dabke::ops {

/// Runs one batch, packed, over the mesh of its process set. `scratch` is kept for the next. Between two
/// ranks an allreduce is scaled as well.
Status tcp_run(TcpMesh& mesh, const Batch& batch, const PackedBatch& packed, FusionBuffer& scratch);

}  // namespace dabke::ops
