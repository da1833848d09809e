// What is wrong with the records of a job.
#pragma once

#include <string>
#include <vector>

#include "runtime/timeline/joining/job_files.h"

namespace dabke::viewer {

/// A sentence each: what is missing, was lost or did not end, and where ranks tell different things of one batch. At most
/// `most` of those of one kind, with a word how many there are in all.
Result<std::vector<std::string>> faults_of(const timeline::JobFiles& files,
                                           const timeline::OnProgress& on_progress = {},
                                           std::size_t most = 10);

}  // namespace dabke::viewer
