// The file that a merge writes. It has another name until it is complete, so `path` never names a part of it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace dabke::timeline {

class MergedFile {
 public:
  virtual ~MergedFile() = default;  // removes a file that was not finished

  /// A file whose name ends with ".gz" is compressed by zlib. An error names the path and what to do.
  static Result<std::unique_ptr<MergedFile>> open(const std::string& path);

  /// After the first error nothing more is written; finish() returns that error.
  virtual void write(std::string_view bytes) = 0;
  /// Gives the file its name.
  virtual Status finish() = 0;
};

}  // namespace dabke::timeline
