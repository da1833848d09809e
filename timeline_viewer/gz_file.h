// Reads files, and decompresses those that gzip has compressed.
#pragma once

#include <zlib.h>

#include <cerrno>
#include <string>

#include <fmt/format.h>

#include "runtime/base/status.h"
#include "runtime/base/threads/owned.h"

namespace dabke::viewer {

struct GzReaderTraits {
  using Raw = gzFile;
  static constexpr gzFile none() { return nullptr; }
  static void close(gzFile file) { ::gzclose_r(file); }
};
using GzFile = Owned<GzReaderTraits>;

/// The bytes that are read at once.
inline constexpr unsigned kGzChunk = 1 << 20;

inline Result<GzFile> open_gz(const std::string& path) {
  errno = 0;
  GzFile file(::gzopen(path.c_str(), "rbe"));
  if (!file) return system_error(fmt::format("cannot read '{}'", path), errno == 0 ? ENOMEM : errno);
  (void)::gzbuffer(file.get(), kGzChunk);
  return file;
}

}  // namespace dabke::viewer
