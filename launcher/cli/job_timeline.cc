#include "launcher/cli/job_timeline.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "launcher/process/program.h"
#include "launcher/process/supervisor.h"
#include "runtime/base/settings/config.h"
#include "runtime/timeline/merge/merge.h"

namespace dabke::launcher {
namespace {

/// Ignores errors of stderr: its reader may be gone, which must not change dabkerun's exit code.
void log_of_timeline(const std::string& text) {
  std::fputs(fmt::format("dabkerun: timeline: {}\n", text).c_str(), stderr);
}

/// Reads all pending signals. Returns a signal that ends dabkerun, if there is one.
std::optional<int> take_end(int signals) {
  signalfd_siginfo info{};
  while (::read(signals, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (!is_forwarded(signal) && signal != SIGTSTP) return signal;
  }
  return std::nullopt;
}

std::string own_timeline_tool() {
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  return timeline_tool(own, process_environment()("PATH").value_or(kStandardPath));
}

Status merge_job(const std::string& timeline, const JobId& job, const timeline::OnProgress& go_on) {
  DABKE_ASSIGN_OR_RETURN(const timeline::JobFiles files, timeline::JobFiles::find(timeline, job, go_on));
  for (const std::string& note : files.notes()) log_of_timeline(note);
  DABKE_RETURN_IF_ERROR(timeline::merge_records(files, timeline, go_on));
  log_of_timeline(fmt::format("'{0}' has {1}; '{2} view {0}' shows it with its findings", timeline,
                              timeline::extent_text(files), own_timeline_tool()));
  return {};
}

}  // namespace

std::string timeline_tool(const std::filesystem::path& own, const std::string& path_variable) {
  const std::string name = "dabke-timeline";
  if (!find_program(name, path_variable).path.empty()) return name;
  const std::filesystem::path folder = own.parent_path();
  for (const auto& place : {folder / name, folder.parent_path() / "timeline_viewer" / name}) {
    if (!find_program(place.string(), "").path.empty()) return place.string();
  }
  return name;
}

std::string recorded_timeline(const Options& options, const Environment& environment) {
  const auto config = config_from_environment([&](const std::string& name) -> std::optional<std::string> {
    const auto flag = std::ranges::find(options.knobs, name, &std::pair<std::string, std::string>::first);
    return flag != options.knobs.end() ? flag->second : environment(name);
  });
  // The ranks have already reported a wrong value.
  if (!config || !config->records_timeline() || config->timeline == "DYNAMIC") return {};
  return config->timeline;
}

std::optional<int> merge_timeline(const std::string& timeline, const JobId& job, bool has_met, int signals) {
  std::optional<int> ended_by;
  const Status merged = merge_job(timeline, job, [&](std::uint64_t) {
    if (!ended_by) ended_by = take_end(signals);
    return !ended_by;
  });
  if (merged.is_ok()) return ended_by;
  log_of_timeline(
      has_met || ended_by
          ? fmt::format("{}; {}", merged.message(), timeline::how_to_merge(timeline, own_timeline_tool()))
          : fmt::format(
                "'{}' was not written: no rank initialised Dabke (dabke_init, in Python dabke.init())",
                timeline));
  return ended_by;
}

}  // namespace dabke::launcher
