// Leaves parts of a program out, to find out which of them a failure needs.
#pragma once

#include <string>

#include "program.h"

namespace storm {

/// `without`: words with commas between them.
///   sets, changes, joins, mismatches, refusals, traces, dumps, leftovers, devices, knobs, hosts, pace
///   limits      numbers near the limits of their dtype
///   knob:NAME   one knob
///   call:ID     one call
///   phases:N    all but the first N phases of each epoch
///   epochs:N    all but the first N epochs
void reduce(Program& program, const std::string& without);

}  // namespace storm
