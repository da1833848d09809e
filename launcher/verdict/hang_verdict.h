// What the dumps of a job's ranks say together: who is waited for, what that rank does instead, since when,
// and where the ranks' ways parted. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/diagnosis/dumps/dump.h"

namespace dabke::launcher {

/// `silent`: of ranks that have sent no dump, what is known of their process; empty: nothing.
/// Lines without a prefix; the first says it all.
std::vector<std::string> hang_verdict(const std::map<Rank, diagnosis::Dump>& dumps, int size,
                                      const std::map<Rank, std::string>& silent);

}  // namespace dabke::launcher
