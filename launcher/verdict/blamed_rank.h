// Whom a rank blames for the end of the job, read from its last words. Pure.
#pragma once

#include <optional>
#include <string_view>

namespace dabke::launcher {

struct Blame {
  int rank = 0;
  std::string_view
      text;  // of the line: what is said of it, from its number on: "rank 1 on vm: it closed its connection"
};

/// Whom a line of stderr blames, in which the library of rank `speaker` says why the job has failed
/// (runtime/base/log.cc): "[<time> dabke rank 0 error] ... rank 1 on <host> ...". Nothing: another line, or
/// nobody is blamed.
std::optional<Blame> blame_in(std::string_view line, int speaker);

/// "left the job in good order (status 0), while rank 0 waits for allreduce 'x'; ..." of a rank that others blame, and which
/// has ended with status 0, or where `has_ended` is false not by itself. Empty: it says nothing like it. Pure.
std::string early_leave(std::string_view blame, bool has_ended);

}  // namespace dabke::launcher
