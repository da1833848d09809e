// The one merge: what dabkerun does as a job ends, and what `dabke-timeline merge` does.
#pragma once

#include <string>

#include "runtime/timeline/job_files.h"

namespace dabke {

/// Writes the one Chrome trace of the job to `path`, compressed where that ends with ".gz". All or nothing: after an error
/// whatever was there before is there still.
Status merge_records(const JobFiles& files, const std::string& path, const OnProgress& on_progress = {});

}  // namespace dabke
