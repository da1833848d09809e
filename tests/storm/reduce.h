// A program with parts left out, to find out which of them a failure needs.
#pragma once

#include <string>

#include "program.h"

namespace storm {

/// `without`: words with commas between them. sets, changes, joins, mismatches, refusals, traces, dumps,
/// leftovers, limits (numbers near those of their dtype), devices, knobs, hosts, pace; knob:NAME; call:ID; phases:N,
/// all but the first N of each epoch; epochs:N.
void reduce(Program& program, const std::string& without);

}  // namespace storm
