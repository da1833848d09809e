#include "runtime/diagnosis/dump_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "runtime/base/hmac.h"
#include "runtime/base/owned.h"

namespace dabke {
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

}  // namespace

Status write_dump_to(const std::string& path, std::string_view text) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return failure("open", path);
  return write_all(file.get(), path, text);
}

Status write_dump_in_shared_folder(const std::string& path, std::string_view text) {
  // The file is written beside it first, under a name that nobody can guess, so that what stands at `path` is
  // always whole.
  std::array<std::byte, 8> random{};
  DABKE_RETURN_IF_ERROR(random_bytes(random));
  const std::string fresh = fmt::format("{}.{}", path, to_hex(random));
  const Fd file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return failure("open", fresh);
  Status written = write_all(file.get(), fresh, text);
  if (written.is_ok() && ::rename(fresh.c_str(), path.c_str()) != 0) written = failure("replace", path);
  if (!written.is_ok()) ::unlink(fresh.c_str());
  return written;
}

}  // namespace dabke
