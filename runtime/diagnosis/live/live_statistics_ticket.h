// The facts that a viewer of a job needs: the address of rank 0, and a key. The key is derived from the job's
// key, which it does not reveal, and it permits viewing only.
//
// The ticket is a file of three lines that only its owner can read: "dabke-look 1", the address with its
// port, and job id, epoch and key.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/base/world.h"
#include "runtime/links/handshake.h"

namespace dabke::diagnosis {

/// The rank of a viewer in its handshake with rank 0.
inline constexpr Rank kLooker = -2;

struct LiveStatisticsTicket {
  std::string address;  // "10.0.0.2:4711"
  JobId job{};
  std::uint64_t epoch = 0;
  JobKey key{};

  links::Handshake::Self handshake_of(Rank self) const;
};

/// The key for viewing the job that has this key.
Result<JobKey> look_key(const JobKey& job_key);

/// The folder of these files, ~/.dabke. It is an error if HOME is not set.
Result<std::string> look_directory();
inline constexpr std::string_view kLookFilePrefix = "look-";
/// The name of the file for this address.
std::string look_file_name(const std::string& address);

/// Replaces an existing file.
Status write_ticket(const LiveStatisticsTicket& ticket, const std::string& path);
/// A file of another user, or one that others may read, is an error, because its key would not be secret.
Result<LiveStatisticsTicket> read_ticket(const std::string& path);

}  // namespace dabke::diagnosis
