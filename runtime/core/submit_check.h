// What can be told about an operation before any other rank is asked. One set of checks, in one order, for
// all collectives.
#pragma once

#include <span>

#include "runtime/lanes/lanes.h"
#include "runtime/operation/operation.h"
#include "runtime/operation/process_set_table.h"

namespace dabke::core {

/// Refuses what cannot run; fills in output views that the caller left empty (in place, or to be allocated), and
/// notes what the inputs are ready behind. By the thread that submits.
Status check_operation(Operation& operation, const ProcessSetTable& sets, lanes::Lanes& lanes);

/// Refuses outputs that overlap another tensor of the operations, which run together.
Status check_outputs_apart(std::span<const OperationRef> operations);

}  // namespace dabke::core
