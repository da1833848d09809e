// The checks of an operation that need no other rank. There is one list of checks, in one order, for all
// collectives.
#pragma once

#include <span>

#include "runtime/lanes/lanes.h"
#include "runtime/operation/operation.h"
#include "runtime/operation/process_set_table.h"

namespace dabke::core {

/// Refuses an operation that cannot run. Fills in output views that the caller left empty (in place, or to be
/// allocated), and notes the points after which the inputs are ready. Called by the thread that submits.
Status check_operation(Operation& operation, ProcessSetTable& sets, lanes::Lanes& lanes);

/// Refuses outputs that overlap another tensor of the operations, which run together.
Status check_outputs_apart(std::span<const OperationRef> operations);

}  // namespace dabke::core
