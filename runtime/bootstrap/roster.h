// How the ranks of a job agree on an epoch and on its members, in the job's part of the store.
//
//   1. Rank 0 draws the epoch: it increments `epoch`. All else of this init is under `<epoch>/`.
//   2. Rank 0 writes into `opened` which epoch is open, and for how many ranks, and leaves its hello in the
//      epoch.
//   3. The others wait for `opened`, whatever epoch they were in before. Each leaves `<epoch>/hello/<rank>`:
//      a token that no other process has, and its size, host, process sets and process. A process of another
//      size waits for the next epoch; in the job's first epoch another size is an error.
//   4. When all have come, rank 0 removes `opened` and writes `<epoch>/roster`: the token, the process and
//      the host of every rank, or the error. All ranks read it.
//   5. A process whose token is not in the roster came too late, or beside another process with its rank. It
//      waits for the next open epoch. A process that waits for the roster of a dead rank 0 does the same: it
//      leaves its hello in a later epoch once that is open.
//   6. A process of this host that has ended ends the wait, unless a new process takes its place within a
//      moment: rank 0 writes the error into the roster. If rank 0 itself has ended, a rank that waits for it
//      writes the error.
//
// So rank 0 defines an epoch, and no rank counts by itself. Ranks may have other numbers in the next epoch,
// some may be new, and the entries of a dead rank belong to an epoch that is over. A rank whose rank 0 does
// not come leaves `waiting/<rank>`, its size, after a moment, so that the others do not name it as absent.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"
#include "runtime/base/world.h"
#include "runtime/bootstrap/elastic/words.h"
#include "runtime/links/process_identity.h"
#include "runtime/store/store.h"

namespace dabke::bootstrap {

/// The facts that a rank gives about itself.
struct Hello {
  Rank rank = 0;
  int size = 1;
  std::string host;
  std::string process_sets;  // in the form of process_sets_of()
};

struct Roster {
  std::uint64_t epoch = 1;
  std::vector<std::string> hosts;                      // by rank
  std::vector<links::ProcessIdentity> processes = {};  // by rank; empty if unknown
};

/// Reports of the ranks for which an init waits. Rank 0 writes them, or rank 1 if rank 0 has not come.
struct WaitReports {
  std::function<void(const std::string& line)> write_line;  // empty: no reports
  Duration first = std::chrono::seconds(5), again = std::chrono::seconds(15);
};

/// Meets the other ranks in `job`, the job's part of the store. Init costs each rank a handful of store
/// calls, and all ranks get the same list or the same error.
///   errors  timeout, naming the absent ranks; peer_lost, naming one that ended; mismatch of sizes or process
///           sets, naming two ranks
Result<Roster> meet(store::Store& job, const Hello& self, const Config& config, TimePoint deadline,
                    const WaitReports& reports = {});

/// Draws the epoch. Rank 0 calls this if the ranks have met without the store.
Result<std::uint64_t> draw_epoch(store::Store& job);

/// Removes the entries of crashed epochs before `epoch`. All ranks must be past them.
void sweep(store::Store& job, std::uint64_t epoch);

/// The static process sets as text, equal on ranks whose sets are equal. A text that cannot be parsed stays
/// as it is, and its next reader refuses it.
std::string process_sets_of(const Config& config, int size);
Status process_sets_mismatch(const std::string& of_root, Rank rank, const std::string& theirs);

/// The lines of a text that ranks leave for each other.
std::vector<std::string> lines_of(std::string_view text);

}  // namespace dabke::bootstrap
