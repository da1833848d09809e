// A dump as a file.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace dabke::diagnosis {

/// Into the file that somebody asked for by its path, which may be there already.
Status write_dump_to(const std::string& path, std::string_view text);

/// Into a file with a name that anybody can guess, in a folder where anybody may write, such as /tmp. So it
/// is made anew for its owner alone, never one that is there already, whoever put it or a link of that name
/// there. An earlier dump is replaced; what belongs to another user there is an error.
Status write_dump_in_shared_folder(const std::string& path, std::string_view text);

/// dabke-dump.<job>.rank<n>.json; of the job's id, the beginning.
std::string dump_file_name(std::string_view job, int rank);

/// Removes this user's dumps of all jobs in `directory` but the newest few, where nobody else would. Those of `job` stay. Other
/// ranks may do so at the same time.
void remove_old_dumps(const std::string& directory, std::string_view job);

/// How many jobs' dumps stay.
inline constexpr int kKeptDumps = 5;

}  // namespace dabke::diagnosis
