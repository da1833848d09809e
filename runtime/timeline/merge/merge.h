// The one merge: what dabkerun does as a job ends, and what `dabke-timeline merge` does.
#pragma once

#include <string>
#include <vector>

#include "runtime/timeline/joining/job_files.h"

namespace dabke::timeline {

/// Writes the one Chrome trace of the job to `path`, compressed where that ends with ".gz". All or nothing: after an error
/// whatever was there before is there still.
Status merge_records(const JobFiles& files, const std::string& path, const OnProgress& on_progress = {});

/// The same of the newest files `path`.rank<n> of the job, by the rank that has closed its own: waits a second for the
/// others of this host to be closed.
///   errors  where not all ranks' files are seen here, or they are too large to keep the application waiting
Status merge_closed_records(const std::string& path, const JobId& job, int size,
                            std::vector<std::string>& notes);

/// What to do where the records could not be merged. `tool`: how dabke-timeline is called.
std::string how_to_merge(const std::string& path, std::string_view tool = "dabke-timeline");

}  // namespace dabke::timeline
