// Looks at a job that runs: the figures of all ranks, once a second, from its rank 0
// (runtime/diagnosis/live/live_statistics_server.h).
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace dabke::viewer {

struct TopOptions {
  std::string
      address;  // "node1:4711" or "10.0.0.2:4711"; empty: of the only job that can be looked at from here
  std::string key_file;  // empty: where rank 0 puts it
  bool json = false;     // as it comes, a line each
  bool once = false;     // and that is all
};

/// Until the job ends, which is well, or a signal comes.
///   errors  no such job, no file with the key, or not that job's; nobody answers
Status look_at_job(const TopOptions& options);

}  // namespace dabke::viewer
