// The verdict from the dumps of a job's ranks: the ranks that are waited for, what they do instead, since
// when, and where the ranks' submissions diverged. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/diagnosis/dumps/dump.h"

namespace dabke::launcher {

/// Returns lines without a prefix; the first is the summary. `silent` has, for ranks that have sent no dump,
/// the state of their process; empty: unknown.
std::vector<std::string> hang_verdict(const std::map<Rank, diagnosis::Dump>& dumps, int size,
                                      const std::map<Rank, std::string>& silent);

}  // namespace dabke::launcher
