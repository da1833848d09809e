// The merge of the records of a job's ranks into one trace, when the job ends.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "launcher/cli/flags/options.h"
#include "runtime/base/settings/config.h"
#include "runtime/base/world.h"

namespace dabke::launcher {

/// Returns the name of the timeline to which the ranks record, from flags, else from `environment`, which is
/// dabkerun's. Empty if they record none, or name their timelines themselves.
std::string recorded_timeline(const Options& options, const Environment& environment);

/// Returns the command for dabke-timeline: its name if it is in PATH, else its path beside the dabkerun at
/// `own`, installed or in the build.
std::string timeline_tool(const std::filesystem::path& own, const std::string& path_variable);

/// Merges the records of the job. Prints on stderr where the trace is and what is missing, or the command
/// that can make it. Returns the signal from `signals`, a signalfd, that has ended the merge early, if there
/// is one. `has_met`: some rank has initialised Dabke. If none has, the message gives that as the reason for
/// missing records.
std::optional<int> merge_timeline(const std::string& timeline, const JobId& job, bool has_met, int signals);

}  // namespace dabke::launcher
