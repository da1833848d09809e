// The faults in the records of a job.
#pragma once

#include <string>
#include <vector>

#include "runtime/timeline/joining/job_files.h"

namespace dabke::viewer {

/// Returns one sentence for each fault: records that are missing or lost, tensors that did not end, and
/// batches that ranks recorded differently. Of one kind it returns at most `most` sentences, and one more
/// with the number of the rest.
Result<std::vector<std::string>> faults_of(const timeline::JobFiles& files,
                                           const timeline::OnProgress& on_progress = {},
                                           std::size_t most = 10);

}  // namespace dabke::viewer
