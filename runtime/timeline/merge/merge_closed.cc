#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "runtime/base/clock.h"
#include "runtime/timeline/merge/merge.h"

namespace dabke::timeline {
namespace {

namespace fs = std::filesystem;

/// The longest wait for the other ranks' files. All ranks open and close them at the same orders, or as the
/// job begins and ends, but not at the same time.
constexpr std::chrono::seconds kPatience{1};
/// The wait until a file is visible; after that it is taken to be on another host.
constexpr std::chrono::milliseconds kUntilSeen{200};
/// The size of records that are merged in about five seconds.
constexpr std::uintmax_t kMostBytes = std::uintmax_t{128} << 20;

}  // namespace

Status merge_closed_records(const std::string& path, const TimelineOrigin& origin,
                            std::vector<std::string>& notes) {
  const TimePoint begin = Clock::now();
  const auto wait_until = [begin](const auto& happened, Duration patience) {
    while (!happened()) {
      if (Clock::now() >= begin + patience) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  };
  std::uintmax_t bytes = 0;
  TimelineOrigin other = origin;
  for (other.rank = 0; other.rank < origin.size; ++other.rank) {
    const std::string file = path + suffix_of(other);
    std::error_code failed;
    if (!wait_until([&] { return fs::exists(file, failed); }, kUntilSeen))
      return {Code::invalid_argument, fmt::format("rank 0 cannot find '{}'", file)};
    // A file that is not closed by then counts as cut, which becomes a note.
    (void)wait_until([&] { return RecordFile::is_closed(file); }, kPatience);
    bytes += fs::file_size(file, failed);
  }
  if (bytes > kMostBytes) {
    return {Code::invalid_argument,
            fmt::format("the records '{}.rank<n>' have {} MB, too much to merge while the program waits",
                        path, bytes >> 20)};
  }
  DABKE_ASSIGN_OR_RETURN(const JobFiles files, JobFiles::find(path, origin.job_id));
  notes = files.notes();
  return merge_records(files, path);
}

std::string how_to_merge(const std::string& path, std::string_view tool) {
  return fmt::format("on a host that has all ranks' records, merge them into one trace with: {} merge {}",
                     tool, path);
}

}  // namespace dabke::timeline
