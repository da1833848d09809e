// Collectives of small messages, in as few steps as possible: about log2 of the number of ranks.
//
//   allreduce   recursive doubling. In step k, ranks that differ only in bit k exchange the sums of their
//               blocks of 2^k ranks, and both compute (lower block) op (higher block). So all ranks have the
//               same bits, and the same in every run. If the number of ranks is not a power of two, let p be
//               the largest power below it. Then rank p + i first gives its data to rank i, and gets the
//               result at the end.
//   broadcast   a binomial tree from the root
//   allgather   in step k, each rank has the blocks of 2^k ranks from its own on. It gives them to the rank
//               2^k before it, and gets as many from the rank 2^k after it.
//   barrier     the same without data
//   source      Thakur, Rabenseifner, Gropp 2005, "Optimization of collective communication operations in
//               MPICH";
//               Bruck et al. 1997, "Efficient algorithms for all-to-all communications in multiport systems"
#pragma once

#include "ops/tcp/tcp_mesh.h"
#include "runtime/backend/packer.h"

namespace dabke::ops {

/// Runs one packed batch over the mesh of its process set. `scratch` is kept for the next batch. Between two
/// ranks, an allreduce is scaled as well.
Status tcp_run(TcpMesh& mesh, const Batch& batch, const PackedBatch& packed, FusionBuffer& scratch);

}  // namespace dabke::ops
