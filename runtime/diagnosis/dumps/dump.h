// The report that a rank makes when a job hangs or fails. It is written to a file, and
// the launcher gathers it.
//
// The report is a JSON object. Times are ages in seconds when the dump was made ("age_s"), since the clocks
// of hosts differ:
//   format "dabke-dump", version 1, reason, incident (equal on all ranks of one cause; 0 for this rank alone)
//   job, epoch, rank, size, host, pid, unix_time
//   last_order, submitted   progress of this rank: the number of its last order, and of tensors submitted
//   pending[]               submitted and not ordered: name, collective, process_set, signature, age_s, state
//   process_sets{}          id: world ranks, of every set that `pending` names
//   events[]                the flight recorder, oldest first, also of earlier epochs: what, age_s, name, ...
//   events_before           number of earlier events, which are lost
//   stacks[]                thread, name, frames[]
//   application_stack       the text of the stack provider
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/world.h"

namespace dabke::diagnosis {

struct Dump {
  struct Pending {
    std::string name;
    std::string collective;
    ProcessSetId process_set = kWorldSet;
    std::string signature;
    double age = 0;  // seconds
    // "announced", "kept back" for its learned batch, "queued" behind an earlier tensor of its name, or
    // "incomplete": a group whose other members have not come.
    std::string state;
  };
  struct Event {
    std::string what;  // FlightEvent::What as text
    double age = 0;
    std::string name;
    std::string collective;  // empty for a note and an epoch
    ProcessSetId process_set = kWorldSet;
    std::uint64_t number = 0;
    std::uint64_t tensors = 0;
    std::uint64_t size_bytes = 0;
  };
  struct Stack {
    int thread = 0;
    std::string name;
    std::vector<std::string> frames;  // innermost first
  };

  std::string reason;
  std::uint64_t incident = 0;
  std::string job;
  std::uint64_t epoch = 0;
  Rank rank = 0;
  int size = 1;
  std::string host;
  int pid = 0;
  double unix_time = 0;
  std::uint64_t last_order = 0;
  std::uint64_t submitted = 0;
  std::vector<Pending> pending;
  std::map<ProcessSetId, std::vector<Rank>> process_sets;
  std::uint64_t events_before = 0;
  std::vector<Event> events;
  std::vector<Stack> stacks;
  std::string application_stack;
};

/// Returns the events of the epoch in which the dump was made. In an elastic job, events of earlier epochs
/// come before them, with numbers of their own.
std::span<const Dump::Event> events_of_epoch(const Dump& dump);

/// Returns the dump as JSON, with only the newest `most_events` events.
std::string to_json(const Dump& dump, std::size_t most_events);
/// An error describes the fault in the text.
Result<Dump> parse_dump(const std::string& text);

/// The key under which a rank stores its dump for the launcher, below the epoch's keys.
std::string dump_key(std::uint64_t incident, Rank rank);
/// True if this is such a key, with any prefix.
bool is_dump_key(const std::string& key);

/// Returns a text for the files of some ranks, such as "what the ranks were doing is in
/// /tmp/dabke-dump.75a4a0eb.rank*.json, each on its host".
std::string dumps_text(const std::vector<std::string>& paths, int size, bool is_one_host);

/// The key under which a rank stores the path of its dump's file.
std::string dump_file_key(Rank rank);
bool is_dump_file_key(const std::string& key);

}  // namespace dabke::diagnosis
