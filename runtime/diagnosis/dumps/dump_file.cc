#include "runtime/diagnosis/dumps/dump_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "runtime/base/hmac.h"
#include "runtime/base/threads/owned.h"

namespace dabke::diagnosis {
namespace {

Status failure(const char* what, const std::string& path) {
  return {Code::transport, fmt::format("cannot {} dump '{}': {}", what, path, std::strerror(errno))};
}

Status write_all(int file, const std::string& path, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(file, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return failure("write", path);
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

constexpr std::string_view kDumpPrefix = "dabke-dump.", kRankPart = ".rank", kEnding = ".json";
constexpr std::size_t kFreshBytes = 8;

/// Returns the job in the name of a dump; empty for other files.
std::string job_of_dump(std::string_view name) {
  const auto rank = name.rfind(kRankPart);
  if (!name.starts_with(kDumpPrefix) || rank == std::string_view::npos) return "";
  const auto end = name.find(kEnding, rank);
  if (end == std::string_view::npos) return "";
  // The ending of a file whose rank was killed before it could rename the file.
  const std::string_view fresh = name.substr(end + kEnding.size());
  if (!fresh.empty() && (fresh[0] != '.' || fresh.size() != 1 + 2 * kFreshBytes)) return "";
  return std::string(name.substr(kDumpPrefix.size(), rank - std::min(rank, kDumpPrefix.size())));
}

/// Opens a file that has no name while it is written, so a rank that is killed meanwhile leaves nothing. Some
/// file systems do not support this.
Result<Fd> open_nameless(const std::string& folder) {
  Fd file(::open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600));
  if (!file) return failure("open", folder);
  return file;
}

Status name_file(const Fd& file, const std::string& name) {
  const std::string descriptor = fmt::format("/proc/self/fd/{}", file.get());
  if (::linkat(AT_FDCWD, descriptor.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0)
    return failure("name", name);
  return {};
}

Status write_fresh(const std::string& fresh, std::string_view text) {
  if (const auto nameless = open_nameless(std::filesystem::path(fresh).parent_path().string());
      nameless.is_ok()) {
    DABKE_RETURN_IF_ERROR(write_all(nameless->get(), fresh, text));
    return name_file(*nameless, fresh);
  }
  const Fd file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return failure("open", fresh);
  return write_all(file.get(), fresh, text);
}

}  // namespace

Status write_dump_to(const std::string& path, std::string_view text) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return failure("open", path);
  return write_all(file.get(), path, text);
}

Status write_dump_in_shared_folder(const std::string& path, std::string_view text) {
  // The file is first written in the same folder, under a random name. So the file at
  // `path` is always complete.
  std::array<std::byte, kFreshBytes> random{};
  DABKE_RETURN_IF_ERROR(random_bytes(random));
  const std::string fresh = fmt::format("{}.{}", path, to_hex(random));
  Status written = write_fresh(fresh, text);
  if (written.is_ok() && ::rename(fresh.c_str(), path.c_str()) != 0) written = failure("replace", path);
  if (!written.is_ok()) ::unlink(fresh.c_str());
  return written;
}

std::string dump_file_name(std::string_view job, int rank) {
  return fmt::format("{}{}{}{}{}", kDumpPrefix, job, kRankPart, rank, kEnding);
}

void remove_old_dumps(const std::string& directory, std::string_view job) {
  struct JobDumps {
    std::int64_t newest_ns = 0;
    std::vector<std::string> paths;
  };
  std::map<std::string, JobDumps, std::less<>> jobs;
  std::error_code failed;
  std::filesystem::directory_iterator file(directory, failed);
  for (; !failed && file != std::filesystem::directory_iterator(); file.increment(failed)) {
    const std::string path = file->path().string();
    const std::string of_job = job_of_dump(file->path().filename().string());
    struct stat info {};
    if (of_job.empty() || of_job == job || ::lstat(path.c_str(), &info) != 0) continue;
    if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid()) continue;
    JobDumps& dumps = jobs[of_job];
    dumps.newest_ns =
        std::max(dumps.newest_ns, info.st_mtim.tv_sec * std::int64_t{1'000'000'000} + info.st_mtim.tv_nsec);
    dumps.paths.push_back(path);
  }
  std::vector<const JobDumps*> by_age;
  for (const auto& [name, dumps] : jobs) by_age.push_back(&dumps);
  std::ranges::sort(by_age, std::ranges::greater(), &JobDumps::newest_ns);
  constexpr std::size_t kOthers = kKeptDumps - 1;  // in addition to this job's
  for (std::size_t i = kOthers; i < by_age.size(); ++i) {
    for (const std::string& path : by_age[i]->paths) ::unlink(path.c_str());
  }
}

}  // namespace dabke::diagnosis
