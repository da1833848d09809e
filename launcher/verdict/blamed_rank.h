// The rank that another rank blames for the end of the job, read from its last lines. Pure.
#pragma once

#include <optional>
#include <string_view>

namespace dabke::launcher {

struct Blame {
  int rank = 0;
  // The part of the line about that rank, from its number on: "rank 1 on vm: it closed its connection".
  std::string_view text;
};

/// Returns the rank that a line of stderr blames. In such a line the library of rank `speaker` reports why
/// the job has failed (runtime/base/log.cc): "[<time> dabke rank 0 error] ... rank 1 on <host> ...". Returns
/// nothing for another line, or if it blames no rank.
std::optional<Blame> blame_in(std::string_view line, int speaker);

/// Returns a text such as "left the job normally (status 0), while rank 0 waits for allreduce 'x'; ..."
/// for a rank that others blame. `has_ended`: the rank has ended with status 0; otherwise we have ended it.
/// Empty if the blame is of another kind. Pure.
std::string early_leave(std::string_view blame, bool has_ended);

}  // namespace dabke::launcher
