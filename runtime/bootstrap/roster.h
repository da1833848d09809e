// How the ranks of a job agree on an epoch and on who is in it, in the job's part of the store.
//
//   1. Rank 0 draws the epoch: it counts `epoch` up. All else of this init is under `<epoch>/`.
//   2. It says in `opened` which epoch's roster is open now, and for how many ranks, and leaves its hello there.
//   3. The others wait for `opened`, whatever they were in before, and leave `<epoch>/hello/<rank>`: a token
//      that no other process has, their size, host, process sets and process. Whoever means to be one of more ranks, or
//      of fewer, waits for the next; but not in the first epoch of all, where that is an error.
//   4. When all have come, rank 0 takes `opened` away and leaves `<epoch>/roster`: the token, the
//      process and the host of every rank, or what is wrong. Everybody reads that.
//   5. Whoever is not in it by its token came too late, or beside another process with its rank. It waits for
//      the next epoch that is opened. So does, sooner or later, who waits for the roster of a rank 0 that has
//      died: when a later epoch has been opened it leaves its hello there.
//   6. A process of the same host that has ended is not waited for: rank 0 says so in the roster, and where it is rank
//      0 itself, one that waits for it says so in its stead; unless, within a moment, a new process has the place.
//
// So an epoch is what rank 0 says, and nobody counts for himself: ranks may have other numbers in the next
// epoch, some may be new, and what a rank that died has left is in an epoch that is over. A rank whose rank 0
// does not come leaves `waiting/<rank>`, its size, after a moment, so that the others do not name it as absent.
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
#include "runtime/links/process_identity.h"
#include "runtime/store/store.h"

namespace dabke::bootstrap {

/// What a rank tells of itself.
struct Hello {
  Rank rank = 0;
  int size = 1;
  std::string host;
  std::string process_sets;  // as process_sets_of() gives them
};

struct Roster {
  std::uint64_t epoch = 1;
  std::vector<std::string> hosts;                      // by rank
  std::vector<links::ProcessIdentity> processes = {};  // by rank; empty where they are not known
};

/// How it is said for whom an init waits: by rank 0, and by rank 1 where rank 0 has not come.
struct WaitReports {
  std::function<void(const std::string& line)> write_line;  // empty: nobody listens
  Duration first = std::chrono::seconds(5), again = std::chrono::seconds(15);
};

/// Meets the other ranks in `job`, the job's part of the store. So init costs each rank a handful of store
/// calls, and all ranks see the same list or the same error.
///   errors  timeout, naming the ranks that did not come; peer_lost, naming one that ended; mismatch of sizes or process sets, naming two ranks
Result<Roster> meet(store::Store& job, const Hello& self, const Config& config, TimePoint deadline,
                    const WaitReports& reports = {});

/// What rank 0 does where the ranks have met without the store: draws the epoch.
Result<std::uint64_t> draw_epoch(store::Store& job);

/// Removes what crashed epochs before `epoch` have left. Everybody must be past them.
void sweep(store::Store& job, std::uint64_t epoch);

/// The static process sets in words that are alike on ranks that mean the same. What cannot be understood
/// stays as it is: whoever reads it next refuses it.
std::string process_sets_of(const Config& config, int size);
Status process_sets_mismatch(const std::string& of_root, Rank rank, const std::string& theirs);

/// The lines of a text that ranks leave for each other.
std::vector<std::string> lines_of(std::string_view text);
/// `text` as one line of such a text.
std::string one_line(std::string text);

}  // namespace dabke::bootstrap
