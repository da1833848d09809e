// The merge of all ranks' records into one trace. dabkerun calls it when a job ends, and `dabke-timeline
// merge` calls it too.
#pragma once

#include <string>
#include <vector>

#include "runtime/timeline/joining/job_files.h"

namespace dabke::timeline {

/// Writes the Chrome trace of the job to `path`, compressed if `path` ends with ".gz". After an error the
/// file that was there before is unchanged.
Status merge_records(const JobFiles& files, const std::string& path, const OnProgress& on_progress = {});

/// Merges the files of the job that recorded to `path`, also of its earlier epochs. The rank `origin` calls
/// it after it has closed its own file. Waits up to a second until the other ranks of its epoch have closed
/// theirs.
///   errors  if this host does not see the files of all ranks, or if a merge of their size would take too
///           long
Status merge_closed_records(const std::string& path, const TimelineOrigin& origin,
                            std::vector<std::string>& notes);

/// Returns advice for records that could not be merged. `tool` is the command that runs dabke-timeline.
std::string how_to_merge(const std::string& path, std::string_view tool = "dabke-timeline");

}  // namespace dabke::timeline
