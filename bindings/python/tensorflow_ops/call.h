// A collective as a node of a graph describes it.
#pragma once

#include "bindings/python/tensorflow_ops/failure.h"
#include "dabke/dabke.h"

namespace dabke::python::tensorflow {

/// The facts of a call that its node has as attributes: all but tensors, names and splits.
struct Call {
  dabke_collective collective = DABKE_ALLREDUCE;
  bool is_group = false;  // all tensors, or none; otherwise each goes by itself
  dabke_options options = DABKE_OPTIONS_INIT;

  bool keeps_shape() const { return collective == DABKE_ALLREDUCE || collective == DABKE_BROADCAST; }
};

/// The attributes of every op of a collective, as AddAttr takes them. A factor is the bits of a double.
inline constexpr const char* kCallAttributes[] = {
    "group: int = 0", "process_set: int = 0", "reduce_op: int",   "root_rank: int = 0",
    "prescale: int",  "postscale: int",       "compression: int", "priority: int = 0",
};

/// Reads those attributes of a node.
Failure read_attributes(TF_OpKernelConstruction* construction, Call& call);

}  // namespace dabke::python::tensorflow
