// What the ranks of a job have recorded, made one trace as the job ends.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "launcher/cli/flags/options.h"
#include "runtime/base/settings/config.h"
#include "runtime/base/world.h"

namespace dabke::launcher {

/// Where the ranks are to record: the timeline's name, from flags, else from `environment`, which is
/// dabkerun's; empty where they are not, or name their timelines themselves.
std::string recorded_timeline(const Options& options, const Environment& environment);

/// How dabke-timeline is called: by its name where PATH has it, else by its path where it stands beside the
/// dabkerun at `own`, installed or in the build.
std::string timeline_tool(const std::filesystem::path& own, const std::string& path_variable);

/// Merges the records of the job and says on stderr where the trace is and what is missing, or else by what
/// command it can be made. The signal from `signals`, a signalfd, that has told it to end early, if one has.
/// `has_met`: some rank has initialised Dabke; where none has, that is why there are no records.
std::optional<int> merge_timeline(const std::string& timeline, const JobId& job, bool has_met, int signals);

}  // namespace dabke::launcher
