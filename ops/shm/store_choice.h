// How ranks write what others of their host read next: plainly, or past their caches (kernels::stream_copy).
//
// Where the cores share a cache, or are near, a plain store is as fast or faster, because the reader finds the line in a cache.
// Where they are far apart, a store waits until the line has come from there that the other core has read, and streaming stores
// are several times as fast. Which it is depends on where the processes run, for some minutes on a virtual machine; so it is
// measured while they work. The bits are the same, so nobody has to agree on anything.
//
// For each kind of batch the first rank of its process set decides: all ranks tell it what their work on their last batches cost,
// waiting not counted, and the slowest of them counts, because the others wait for it. It tries the other way now and then, and
// sooner when the costs have changed; and it changes its mind for a clear gain only.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace dabke::ops {

/// What a byte of a batch costs a rank, and how it stored meanwhile.
struct StoreCost {
  bool streams = false;
  float ns_per_kb = 0;
};

/// One kind of batches. Not for several threads.
class StoreChoice {
 public:
  /// How often the ranks tell, in batches.
  static constexpr unsigned kPeriod = 8;

  /// How the next batches store.
  bool streams() const { return is_trial_ != chosen_; }
  /// What the last batches cost, told once a period by all ranks.
  void saw(StoreCost cost);
  /// A period went by, and the ranks told of different ways, as where some of them are in other sets, too. No trial lasts for that.
  void saw_no_agreement();

 private:
  static constexpr unsigned kMostTrialPeriods = 4;
  // Between trials, each of which takes a period or two; the first, where the costs have changed. More where the last one
  // cost more.
  static constexpr unsigned kFewestPeriods = 32, kPeriodsBetween = 128;
  static constexpr float kMostTimes = 4;
  static constexpr float kClearGain = 0.9f;   // of the cost
  static constexpr float kOtherTimes = 1.5f;  // the cost, since the last trial: times have changed

  void end_trial(float times);

  bool chosen_ = false;
  bool is_trial_ = false;
  unsigned periods_ = 0;  // since the last trial, or since it began
  unsigned until_next_ = 0;
  float cost_ = 0;      // lately, of what is chosen; 0: not known yet
  float at_trial_ = 0;  // what it was at the last trial; 0: there was none
};

/// Kinds of batches, by what they cost: through stages or in registered memory, in or out of the caches.
inline constexpr std::size_t kStoreKinds = 6;
/// Below this a batch is of no kind: its lines may as well be fetched.
inline constexpr std::size_t kLeastStored = std::size_t{64} << 10;
/// The kind of a batch; nothing below kLeastStored.
std::optional<std::size_t> store_kind(std::size_t bytes, bool is_registered);

/// What a rank tells the others of its host, in a line of its own.
struct alignas(64) ShmStoreNotes {
  std::array<std::atomic<std::uint32_t>, kStoreKinds> costs{};  // a StoreCost each; 0: none yet
  std::atomic<std::uint32_t> streams{0};                        // what it has decided, a bit for each kind
};

std::uint32_t packed(StoreCost cost);
std::optional<StoreCost> unpacked(std::uint32_t cost);

}  // namespace dabke::ops
