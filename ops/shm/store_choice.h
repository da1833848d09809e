// How ranks write data that others of their host read next: plainly, or past their caches
// (kernels::stream_copy).
//
// If the cores share a cache or are near, a plain store is as fast or faster, because the reader finds the
// line in a cache. If they are far apart, a plain store waits until the line has come back from the other
// core that has read it. Streaming stores are several times as fast then. The better way depends on where the
// processes run, which on a virtual machine may change within minutes. So it is measured during the work. The
// bits are the same either way, so the ranks need not agree.
//
// For each kind of batch, the first rank of the process set decides. All ranks report to it what their work
// on their last batches cost, without waiting. The slowest rank counts, because the others wait for it. The
// first rank tries the other way periodically, and sooner if the costs have changed. It changes its choice
// only for a clear gain.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace dabke::ops {

/// The cost of a batch's bytes on one rank, and how the rank stored meanwhile.
struct StoreCost {
  bool streams = false;
  float ns_per_kb = 0;
};

/// The choice for one kind of batches. Not thread-safe.
class StoreChoice {
 public:
  /// The interval of the ranks' reports, in batches.
  static constexpr unsigned kPeriod = 8;

  /// How the next batches store.
  bool streams() const { return is_trial_ != chosen_; }
  /// Takes the cost of the last batches, which all ranks report once a period.
  void saw(StoreCost cost);
  /// Called after a period in which the ranks reported different ways, for example because some of them are
  /// in other sets too. A trial ends after kMostTrialPeriods of those.
  void saw_no_agreement();

 private:
  static constexpr unsigned kMostTrialPeriods = 4;
  // Periods between trials: kFewestPeriods if the costs have changed, else kPeriodsBetween. The latter is
  // multiplied by the relative cost of the last trial, if that cost more. A trial takes a period or two.
  static constexpr unsigned kFewestPeriods = 32, kPeriodsBetween = 128;
  static constexpr float kMostTimes = 4;
  static constexpr float kClearGain = 0.9f;  // of the cost
  // The cost counts as changed if it differs from that at the last trial by this factor.
  static constexpr float kOtherTimes = 1.5f;

  void end_trial(float times);

  bool chosen_ = false;
  bool is_trial_ = false;
  unsigned periods_ = 0;  // since the last trial ended, or the current one began
  unsigned until_next_ = 0;
  float cost_ = 0;      // recent cost of the chosen way; 0: not known yet
  float at_trial_ = 0;  // its cost at the last trial; 0: there was none
};

/// Kinds of batches, by their cost: through stages or in registered memory, in or out of the caches.
inline constexpr std::size_t kStoreKinds = 6;
/// Batches below this size have no kind: their lines may as well be fetched.
inline constexpr std::size_t kLeastStored = std::size_t{64} << 10;
/// Returns the kind of a batch; nothing below kLeastStored.
std::optional<std::size_t> store_kind(std::size_t bytes, bool is_registered);

/// The notes of a rank for the others of its host, in a line of its own.
struct alignas(64) ShmStoreNotes {
  std::array<std::atomic<std::uint32_t>, kStoreKinds> costs{};  // a StoreCost each; 0: none yet
  std::atomic<std::uint32_t> streams{0};                        // its decisions, one bit for each kind
};

std::uint32_t packed(StoreCost cost);
std::optional<StoreCost> unpacked(std::uint32_t cost);

}  // namespace dabke::ops
