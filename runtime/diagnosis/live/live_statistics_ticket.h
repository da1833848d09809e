// What whoever looks at a job has to know: where rank 0 answers, and a key. It is made of the job's key and
// says nothing of it, and is good for looking alone.
//
// A file of three lines, for its owner alone: "dabke-look 1", the address with its port, and job id, epoch
// and key.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/base/world.h"
#include "runtime/links/handshake.h"

namespace dabke::diagnosis {

/// As whom somebody who looks shakes hands with rank 0.
inline constexpr Rank kLooker = -2;

struct LiveStatisticsTicket {
  std::string address;  // "10.0.0.2:4711"
  JobId job{};
  std::uint64_t epoch = 0;
  JobKey key{};

  links::Handshake::Self handshake_of(Rank self) const;
};

/// The key for looking at the job that has this one.
Result<JobKey> look_key(const JobKey& job_key);

/// ~/.dabke, where these files lie. An error where there is no home.
Result<std::string> look_directory();
inline constexpr std::string_view kLookFilePrefix = "look-";
/// Its name in there: that of the address.
std::string look_file_name(const std::string& address);

/// Replaces what is there.
Status write_ticket(const LiveStatisticsTicket& ticket, const std::string& path);
/// Refused: a file of another user, or one that others may read, because its key would be no secret.
Result<LiveStatisticsTicket> read_ticket(const std::string& path);

}  // namespace dabke::diagnosis
