#include "runtime/timeline/joining/merged_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "runtime/base/threads/owned.h"

namespace dabke::timeline {
namespace {

struct GzTraits {
  using Raw = gzFile;
  static constexpr gzFile none() { return nullptr; }
  static void close(gzFile file) { ::gzclose_w(file); }
};

/// Writes to `part`, and finally renames that to `path`.
class RenamedFile final : public MergedFile {
 public:
  RenamedFile(std::string path, std::string part, Fd fd, Owned<GzTraits> gz)
      : path_(std::move(path)), part_(std::move(part)), fd_(std::move(fd)), gz_(std::move(gz)) {}
  ~RenamedFile() override {
    if (!part_.empty()) ::unlink(part_.c_str());
  }

  void write(std::string_view bytes) override {
    while (!bytes.empty() && error_.is_ok()) {
      const long step =
          gz_ ? ::gzwrite(gz_.get(), bytes.data(), static_cast<unsigned>(std::min(bytes.size(), kMost)))
              : ::write(fd_.get(), bytes.data(), bytes.size());
      if (step < 0 && errno == EINTR && !gz_) continue;
      if (step <= 0) {
        fail(errno);
      } else {
        bytes.remove_prefix(static_cast<std::size_t>(step));
      }
    }
  }

  Status finish() override {
    // Some file systems report a full disk only now.
    if (gz_ && ::gzclose_w(gz_.release()) != Z_OK) fail(errno);
    if (fd_ && ::close(fd_.release()) != 0) fail(errno);
    if (error_.is_ok() && ::rename(part_.c_str(), path_.c_str()) != 0) fail(errno);
    if (error_.is_ok()) part_.clear();
    return error_;
  }

 private:
  static constexpr std::size_t kMost = std::size_t{1} << 30;

  void fail(int why) {
    if (error_.is_ok()) error_ = system_error(fmt::format("writing the trace '{}' failed", path_), why);
  }

  const std::string path_;
  std::string part_;
  Fd fd_;
  Owned<GzTraits> gz_;
  Status error_;
};

/// Sets the mode that open() would give a new file; mkstemp allows only the owner to read it.
void let_others_read(int fd) {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  (void)::fchmod(fd, 0666 & ~mask);
}

}  // namespace

Result<std::unique_ptr<MergedFile>> MergedFile::open(const std::string& path) {
  std::string part = path + ".XXXXXX";
  Fd fd(::mkostemp(part.data(), O_CLOEXEC));
  if (!fd) {
    const Status cause = system_error(fmt::format("cannot write the trace '{}'", path), errno);
    return Status(cause.code(),
                  cause.message() + "; choose a file in a directory that exists and is writable");
  }
  let_others_read(fd.get());
  Owned<GzTraits> gz;
  if (path.ends_with(".gz")) {
    gz = Owned<GzTraits>(::gzdopen(fd.get(), "wb6"));
    if (!gz) {
      ::unlink(part.c_str());
      return Status(Code::out_of_memory, fmt::format("out of memory while compressing '{}'", path));
    }
    (void)fd.release();
  }
  return std::unique_ptr<MergedFile>(
      std::make_unique<RenamedFile>(path, std::move(part), std::move(fd), std::move(gz)));
}

}  // namespace dabke::timeline
