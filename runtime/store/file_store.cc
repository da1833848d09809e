// One file per key: 'links/3' is <directory>/links/3.value. In each part of a key, every byte that is not a
// letter, a digit, '-' or '_' is written as %XX. So no part can be '..' or look like one of our suffixes, and
// a key may have keys below it.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "runtime/base/hmac.h"
#include "runtime/base/threads/owned.h"
#include "runtime/store/store.h"

namespace dabke::store {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

int remove_tree(int parent, const char* name);

/// Takes over the descriptor `directory`, and removes the entries that `wanted` selects. Returns 0 or an
/// errno.
template <class Wanted>
int remove_entries(int directory, Wanted wanted) {
  if (directory < 0) return errno == ENOENT ? 0 : errno;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(directory), ::closedir);
  if (!entries) return ::close(directory), ENOMEM;
  int error = 0;
  while (const dirent* const entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == ".." || !wanted(name)) continue;
    if (const int failed = remove_tree(::dirfd(entries.get()), entry->d_name); failed != 0) error = failed;
  }
  return error;
}

/// Removes a file, or a directory with all that is in it. Returns 0 or an errno. Does not use
/// std::filesystem, which ends the process if there is no memory.
int remove_tree(int parent, const char* name) {
  if (::unlinkat(parent, name, 0) == 0 || errno == ENOENT) return 0;
  if (errno != EISDIR) return errno;
  const int fd = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (const int error = remove_entries(fd, [](std::string_view) { return true; }); error != 0) return error;
  // Entries that are in it now came meanwhile, so they count as set after the removal.
  return ::unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT || errno == ENOTEMPTY ? 0 : errno;
}

// A network file system does not report to inotify what other hosts do, so the wait also checks by itself.
constexpr auto kRecheck = 50ms;
// Ranks come at nearly the same time, so a few short checks come first: the kernel takes some 20 ms to end a
// watch.
constexpr Duration kFirstPause = 500us;
constexpr Duration kWatchFrom = 16ms;
// A counter's lock is held for three system calls; a process that holds it this long is stopped or gone.
constexpr auto kLockPatience = 10s;
// A key's directory may be removed between its making and its use, by a process that removes all below a
// prefix. That is not a failure. If it happens more often in a row than this, the fault lies with the
// directory.
constexpr int kMostRemovals = 100;

std::string file_name_of(std::string_view part) {
  std::string out;
  for (const char c : part) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

fs::path path_of(std::string_view key) {
  fs::path path;
  while (true) {
    const auto slash = key.find('/');
    path /= file_name_of(key.substr(0, slash));
    if (slash == std::string_view::npos) return path;
    key.remove_prefix(slash + 1);
  }
}

/// Returns 0 or an errno.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

/// The file's content; nothing if there is no such file.
Result<std::optional<std::string>> read_file(const fs::path& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd && (errno == ENOENT || errno == ESTALE)) return std::optional<std::string>();
  if (!fd) return system_error(fmt::format("cannot read {}", path.native()), errno);
  std::string content;
  char block[4096];
  while (true) {
    const ssize_t got = ::read(fd.get(), block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(fmt::format("cannot read {}", path.native()), errno);
    if (got == 0) return std::optional(std::move(content));
    content.append(block, static_cast<std::size_t>(got));
  }
}

/// Waits for changes in one directory. Without inotify (too many instances, say) it only sleeps.
class DirectoryWatch {
 public:
  explicit DirectoryWatch(const fs::path& directory) : fd_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    if (fd_ && ::inotify_add_watch(fd_.get(), directory.c_str(), IN_MOVED_TO) < 0) fd_ = Fd();
  }
  void wait(TimePoint deadline) {
    const auto until = std::min(deadline, Clock::now() + kRecheck);
    if (!fd_) return std::this_thread::sleep_until(until);
    pollfd waiting{fd_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, poll_timeout_ms(until)) <= 0) return;
    char events[4096];
    while (::read(fd_.get(), events, sizeof events) > 0) {
    }
  }

 private:
  Fd fd_;
};

class FileStore final : public Store {
 public:
  explicit FileStore(std::string directory) : directory_(std::move(directory)) {}

  Status set(const std::string& key, std::string_view value) override {
    for (int times_left = kMostRemovals;; --times_left) {
      DABKE_ASSIGN_OR_RETURN(const fs::path target, prepare(key));
      std::array<std::byte, 8> noise{};
      DABKE_RETURN_IF_ERROR(random_bytes(noise));
      const fs::path temporary = target.parent_path() / ("." + to_hex(noise) + ".tmp");
      const Failure failure = put(target, temporary, value);
      if (failure.error == 0) return {};
      ::unlink(temporary.c_str());
      if (failure.error == ENOENT && times_left > 0) continue;
      return system_error(fmt::format("cannot set '{}' in {}: {}", key, describe(), failure.step),
                          failure.error);
    }
  }

  Result<std::string> get(const std::string& key, TimePoint deadline) override {
    DABKE_ASSIGN_OR_RETURN(const fs::path target, prepare(key));
    std::optional<DirectoryWatch> watch;
    for (Duration pause = kFirstPause;; pause = std::min(2 * pause, kWatchFrom)) {
      DABKE_ASSIGN_OR_RETURN(auto content, read_file(target));
      if (content) return std::move(*content);
      const auto now = Clock::now();
      if (now >= deadline) {
        return Status(Code::timeout, fmt::format("'{}' was not set in {} in time", key, describe()));
      }
      if (pause < kWatchFrom) {
        std::this_thread::sleep_until(std::min(deadline, now + pause));
      } else if (!watch) {
        watch.emplace(target.parent_path());  // and check once more: it may have come just before the watch
      } else {
        watch->wait(deadline);
        // Opening the directory makes an NFS client ask the server again instead of trusting its cache.
        const Fd refresh(::open(target.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      }
    }
  }

  Result<std::uint64_t> increment(const std::string& key) override {
    DABKE_ASSIGN_OR_RETURN(const fs::path target, prepare(key));
    DABKE_ASSIGN_OR_RETURN(const Fd lock, lock_counters());
    DABKE_ASSIGN_OR_RETURN(const auto content, read_file(target));
    std::uint64_t count = 0;
    if (content) {
      const char* last = content->data() + content->size();
      const auto [end, error] = std::from_chars(content->data(), last, count);
      if (error != std::errc() || end != last) {
        return Status(Code::invalid_argument,
                      fmt::format("{} contains '{}', which is not a counter", target.native(), *content));
      }
    }
    DABKE_RETURN_IF_ERROR(set(key, std::to_string(++count)));
    return count;
  }

  Status remove_all(const std::string& prefix) override {
    int error = 0;
    if (prefix.empty()) {
      const auto is_ours = [](std::string_view name) {
        return name.ends_with(kSuffix) || name.find('.') == std::string_view::npos;
      };
      error = remove_entries(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), is_ours);
    } else {
      const std::string path = (fs::path(directory_) / path_of(prefix)).native();
      error = remove_tree(AT_FDCWD, path.c_str());
      if (error == 0) error = remove_tree(AT_FDCWD, (path + std::string(kSuffix)).c_str());
    }
    if (error == 0) return {};
    return {Code::transport, fmt::format("cannot remove '{}' from {}: {}", prefix, describe(),
                                         std::generic_category().message(error))};
  }

  std::string describe() const override { return "file:" + directory_; }

 private:
  static constexpr std::string_view kSuffix = ".value";

  /// The errno of a system call, or 0, and the step that failed.
  struct Failure {
    int error = 0;
    std::string step = {};
  };

  /// The key's path. Its directory exists until some process removes it.
  Result<fs::path> prepare(const std::string& key) const {
    fs::path target = fs::path(directory_) / path_of(key);
    target += kSuffix;
    std::error_code error;
    for (int times_left = kMostRemovals; times_left >= 0; --times_left) {
      fs::create_directories(target.parent_path(), error);
      if (!error) return target;
      // The call reports file_exists for a directory that existed and was gone when it was checked.
      if (error != std::errc::no_such_file_or_directory && error != std::errc::file_exists) break;
    }
    return Status(Code::transport, fmt::format("cannot make directory {}: {}", target.parent_path().native(),
                                               error.message()));
  }

  static Failure put(const fs::path& target, const fs::path& temporary, std::string_view content) {
    Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return {errno, fmt::format("cannot create {}", temporary.native())};
    if (const int error = write_all(fd.get(), content); error != 0) return {error, "write"};
    // NFS and full disks report their errors only here.
    if (::close(fd.release()) != 0) return {errno, fmt::format("cannot write {}", temporary.native())};
    if (::rename(temporary.c_str(), target.c_str()) != 0) return {errno, "rename"};
    return {};
  }

  /// One lock for all counters of the directory: they are few, and the lock is held briefly.
  Result<Fd> lock_counters() const {
    const std::string path = directory_ + "/.lock";
    Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return system_error(fmt::format("cannot open {}", path), errno);
    const auto deadline = Clock::now() + kLockPatience;
    while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR)
        return system_error(fmt::format("cannot lock {}", path), errno);
      if (Clock::now() >= deadline) {
        return Status(Code::timeout,
                      fmt::format("{} stayed locked for 10 s; is a rank of this job stopped?", path));
      }
      std::this_thread::sleep_for(1ms);
    }
    return fd;
  }

  std::string directory_;
};

}  // namespace

Result<std::shared_ptr<Store>> open_file_store(const std::string& directory) {
  const auto refuse = [&](std::string_view why) {
    return Status(Code::invalid_argument, fmt::format("rendezvous directory '{}' {}; it must be writable and "
                                                      "visible to every rank, and is created if missing",
                                                      directory, why));
  };
  if (!directory.starts_with('/')) return refuse("is not an absolute path");
  std::error_code error;
  fs::create_directories(directory, error);  // the next line checks the result
  struct stat info {};
  if (::stat(directory.c_str(), &info) != 0) return refuse(std::generic_category().message(errno));
  if (!S_ISDIR(info.st_mode)) return refuse("is not a directory");
  if (::access(directory.c_str(), R_OK | W_OK | X_OK) != 0)
    return refuse(std::generic_category().message(errno));
  return std::shared_ptr<Store>(std::make_shared<FileStore>(directory));
}

}  // namespace dabke::store
