// How processes that can exchange a few bytes with each other become a job: MPI's, and those that a program
// has brought together.
//
//   1. Hosts and sets: every process gives its host, its process sets and who is in its job, or why it cannot
//      start.
//   2. The note: rank 0 gives all addresses at which its store listens, of which each process finds out for itself which
//      leads there (store_address.h), the job's id and key, and the epoch, which it has drawn from that store; the
//      others, whether what they have seen is in order.
//
// Every process takes part both times, whatever it knows by then to be wrong, so that no other waits for it;
// and what is wrong on one is the error of all. The key travels in the note, so whoever sees that can join.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"
#include "runtime/base/world.h"
#include "runtime/bootstrap/served_store.h"

namespace dabke::bootstrap {

/// The processes that an exchange reaches, and those of them that are the job.
struct ExchangeGroup {
  /// An allgather: every process gives mine, and gets those of all in order of their numbers; all.size() is
  /// count * mine.size().
  using Allgather = std::function<Status(std::span<const char> mine, std::span<char> all)>;

  int number = 0;            // this process's
  int count = 1;             // of processes
  std::vector<int> members;  // by rank, the numbers of the job's processes
  Allgather allgather;
  StoreUse store = StoreUse::of_many_jobs;
  bool resumes = false;  // an allgather that has failed on one process goes on in its next start: MPI's
};

struct ExchangeStart {
  Rank rank = 0;
  std::vector<std::string> hosts;  // by rank
  ServedStore store;               // no rendezvous: a job of one rank
  std::uint64_t epoch = 1;
};

/// Starts with this host's name, or takes part and fails with its error.
///   errors  mismatch of process sets or members; invalid_argument where this process is no member;
///           what the allgather says; what another process has said, naming it
Result<ExchangeStart> start_by_exchange(const Config& config, const ExchangeGroup& group,
                                        const Result<std::string>& host);

/// Takes part for a process that cannot start, and returns why.
Status fail_by_exchange(const ExchangeGroup& group, const Status& why);

}  // namespace dabke::bootstrap
