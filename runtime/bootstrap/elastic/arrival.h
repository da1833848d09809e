// The text with which a process of an elastic job comes to a meeting: it asks for a place in the next epoch.
// dabkerun, which serves the store, reads it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/links/process_identity.h"

namespace dabke::bootstrap {

/// The number that dabkerun gives to a process when it starts it. It is never used twice in a job.
using WorkerId = int;

struct Arrival {
  WorkerId worker = 0;
  std::uint64_t visit = 1;                   // counts the arrivals of this process
  std::uint64_t epoch = 0;                   // the epoch that this process has left; 0: it is new
  std::optional<std::uint64_t> commit = {};  // the number of its newest commit; none: it has no state
  std::uint64_t repeated_steps = 0;          // training steps since that commit that were lost
  std::string host;
  links::ProcessIdentity process;
  std::string process_sets;  // as process_sets_of() in roster.h

  friend bool operator==(const Arrival&, const Arrival&) = default;
};

/// The key of the arrivals of a process, in the job's part of the store.
std::string arrival_key(WorkerId worker);
/// The process whose arrivals have this key; none: it is another key.
std::optional<WorkerId> arriving_worker(std::string_view key);

std::string to_text(const Arrival& arrival);
/// None if the text makes no sense.
std::optional<Arrival> read_arrival(std::string_view text);

/// The key of the answer to an arrival (answer.h).
std::string answer_key(WorkerId worker, std::uint64_t visit);
/// The key of the record that dabkerun leaves when the process has ended (runtime/base/ended_rank.h). The
/// ranks that have lost it wait for the record for a moment.
std::string end_key(WorkerId worker);

}  // namespace dabke::bootstrap
