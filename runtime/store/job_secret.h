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

/// Reads hexadecimal digits, as in DABKE_JOB_ID and DABKE_JOB_KEY. The key itself is never in an error.
Result<JobSecret> parse_job_secret(const std::string& id, const std::string& key);

/// The digit that replaces every digit of the key in a rank's environment. A program that inherits these
/// learns that it was started by a rank and is not one itself.
inline constexpr char kTakenKeyDigit = '-';
bool is_taken_key(std::string_view text);

/// The secret of `directory`: the file `job-secret`, which the first rank makes, for its owner alone. A file
/// of another user, or one that others may use, is refused, because its key would not be a secret.
Result<JobSecret> job_secret_in(const std::string& directory);

}  // namespace dabke::store
