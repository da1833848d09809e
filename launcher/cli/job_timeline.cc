#include "launcher/cli/job_timeline.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "runtime/base/config.h"
#include "runtime/timeline/merge.h"

namespace dabke {
namespace {

/// Nobody may read it any more, which is not to change how dabkerun ends.
void say_of_timeline(const std::string& text) {
  std::fputs(fmt::format("dabkerun: timeline: {}\n", text).c_str(), stderr);
}

Status merge_job(const std::string& timeline, const JobId& job, int signals) {
  const OnProgress go_on = [signals](std::uint64_t) {
    pollfd interrupted{.fd = signals, .events = POLLIN, .revents = 0};
    return ::poll(&interrupted, 1, 0) <= 0;
  };
  DABKE_ASSIGN_OR_RETURN(const JobFiles files, JobFiles::find(timeline, job, go_on));
  for (const std::string& note : files.notes()) say_of_timeline(note);
  DABKE_RETURN_IF_ERROR(merge_records(files, timeline, go_on));
  say_of_timeline(
      fmt::format("'{0}' has {1} of {2} ranks; 'dabke-timeline view {0}' shows it, and what stands out",
                  timeline, files.ranks().size(), files.size()));
  return {};
}

}  // namespace

std::string recorded_timeline(const Options& options) {
  const Environment inherited = process_environment();
  const auto config = config_from_environment([&](const std::string& name) -> std::optional<std::string> {
    const auto flag = std::ranges::find(options.knobs, name, &std::pair<std::string, std::string>::first);
    return flag != options.knobs.end() ? flag->second : inherited(name);
  });
  // Where a value is wrong the ranks have said so.
  if (!config || !config->records_timeline() || config->timeline == "DYNAMIC") return {};
  return config->timeline;
}

void merge_timeline(const std::string& timeline, const JobId& job, int signals) {
  const Status merged = merge_job(timeline, job, signals);
  if (!merged.is_ok()) say_of_timeline(fmt::format("{}; {}", merged.message(), how_to_merge(timeline)));
}

}  // namespace dabke
