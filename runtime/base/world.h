// The participants of a job: its ranks and hosts, this process's rank, and the epoch. Immutable for one init.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dabke {

using Rank = int;
/// Instead of the sender of a message: whichever rank sends one.
inline constexpr Rank kAnyRank = -1;
using ProcessSetId = std::int32_t;
inline constexpr ProcessSetId kWorldSet = 0;

/// 128 random bits that distinguish jobs.
using JobId = std::array<std::byte, 16>;
/// The shared secret of a job. Peers prove to each other that they have it.
using JobKey = std::array<std::byte, 32>;

/// "rank 3 on host-b"; "rank 3" if its host is not known.
std::string name_of_rank(Rank rank, const std::vector<std::string>& hosts);

struct World {
  JobId job_id{};
  JobKey job_key{};
  std::uint64_t epoch = 1;  // counts the inits of the job; rank 0 draws it, and no rank counts by itself
  Rank rank = 0;
  int size = 1;
  int local_rank = 0;  // among the ranks of this host
  int local_size = 1;
  int cross_rank = 0;  // among the ranks of equal local_rank
  int cross_size = 1;
  std::vector<std::string> hosts;  // by rank
  /// The address on which this rank listens for the others, such as "10.0.0.2" or "fd00::2". All ranks reach
  /// it (runtime/bootstrap/host_addresses.h). Empty: loopback.
  std::string address;
  std::string name_of(Rank one) const { return name_of_rank(one, hosts); }

  /// True if every host has the same number of ranks.
  bool is_homogeneous = true;
};

}  // namespace dabke
