// Views a running job: receives the figures of all ranks once a second from its rank 0
// (runtime/diagnosis/live/live_statistics_server.h).
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace dabke::viewer {

struct TopOptions {
  // The job's address, such as "node1:4711" or "10.0.0.2:4711". Empty for the only job that
  // can be viewed from here.
  std::string address;
  std::string key_file;  // empty for the file that rank 0 writes
  bool json = false;     // print the JSON as it comes, one line each time
  bool once = false;     // print once and end
};

/// Shows the figures until a signal comes, or until the job ends, which is not an error.
///   errors  no such job; no file with the key, or the key of another job; no answer
Status look_at_job(const TopOptions& options);

}  // namespace dabke::viewer
