// How processes that can exchange a few bytes become a job: the processes of MPI, and those that a program
// has brought together.
//
//   1. Hosts and sets: every process sends its host, its process sets and the members of its job, or the
//      reason why it cannot start.
//   2. The note: rank 0 sends all addresses on which its store listens, the job's id and key, and the epoch,
//      which it has drawn from that store. Each process finds out for itself which address leads to the store
//      (store_address.h). The other processes send whether all that they received is in order.
//
// Every process takes part in both rounds, even if it has found an error, so that no other waits for it. An
// error on one process becomes the error of all. The note contains the key, so every process that sees the
// note can join.
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

/// The processes that take part in an exchange, and those of them that form the job.
struct ExchangeGroup {
  /// An allgather: every process gives `mine`, and gets the blocks of all in the order of their numbers.
  /// all.size() is count * mine.size().
  using Allgather = std::function<Status(std::span<const char> mine, std::span<char> all)>;

  int number = 0;            // of this process
  int count = 1;             // of processes
  std::vector<int> members;  // by rank, the numbers of the job's processes
  Allgather allgather;
  StoreUse store = StoreUse::of_many_jobs;
  bool resumes = false;  // an allgather that failed on one process goes on in its next start, as MPI's does
};

struct ExchangeStart {
  Rank rank = 0;
  std::vector<std::string> hosts;  // by rank
  ServedStore store;               // no rendezvous: a job of one rank
  std::uint64_t epoch = 1;
};

/// Starts with this host's name, or takes part and fails with its error.
///   errors  mismatch of process sets or members; invalid_argument if this process is not a member; errors of
///           the allgather; the error of another process, with its rank
Result<ExchangeStart> start_by_exchange(const Config& config, const ExchangeGroup& group,
                                        const Result<std::string>& host);

/// Takes part for a process that cannot start, and returns `why`.
Status fail_by_exchange(const ExchangeGroup& group, const Status& why);

}  // namespace dabke::bootstrap
