// The file of a dump.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace dabke::diagnosis {

/// Writes the dump to a file that the user has named, and that may exist already.
Status write_dump_to(const std::string& path, std::string_view text);

/// Writes the dump to a file whose name can be guessed, in a folder where everybody may write, such as /tmp.
/// The file is always created, for its owner alone. An existing file or link of that name is never opened. It
/// is replaced if it is an earlier dump; if it belongs to another user, that is an error.
Status write_dump_in_shared_folder(const std::string& path, std::string_view text);

/// Returns dabke-dump.<job>.rank<n>.json; `job` is the beginning of the job's id.
std::string dump_file_name(std::string_view job, int rank);

/// Removes this user's dumps in `directory`, which nothing else removes. Keeps those of `job` and of the
/// newest other jobs. Other ranks may do the same at the same time.
void remove_old_dumps(const std::string& directory, std::string_view job);

/// The number of jobs whose dumps are kept.
inline constexpr int kKeptDumps = 5;

}  // namespace dabke::diagnosis
