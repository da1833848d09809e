// The job's id and key: given, made, or left in a directory for the other ranks.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/base/world.h"

namespace dabke::store {

struct JobSecret {
  JobId id{};
  JobKey key{};
};

Result<JobSecret> random_job_secret();

/// Reads hexadecimal digits, as in DABKE_JOB_ID and DABKE_JOB_KEY. The key itself never goes into a message.
Result<JobSecret> parse_job_secret(const std::string& id, const std::string& key);

/// What a rank leaves of the key in its environment: as many of these. A program that inherits them learns
/// from them that it was started by a rank and is none.
inline constexpr char kTakenKeyDigit = '-';
bool is_taken_key(std::string_view text);

/// That of `directory`: the file `job-secret`, which whoever comes first makes, for its owner alone. A file
/// of another user, or one that others may use, is refused, because its key would be no secret.
Result<JobSecret> job_secret_in(const std::string& directory);

}  // namespace dabke::store
