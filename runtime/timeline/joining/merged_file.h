// The file that a merge writes: beside its name until it is whole, so that a name has a whole file or none of this merge.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace dabke::timeline {

class MergedFile {
 public:
  virtual ~MergedFile() = default;  // removes what was not finished

  /// Compressed by zlib where the name ends with ".gz". An error names the path and what to do.
  static Result<std::unique_ptr<MergedFile>> open(const std::string& path);

  /// The first error ends it; finish() says it.
  virtual void write(std::string_view bytes) = 0;
  /// Gives it its name.
  virtual Status finish() = 0;
};

}  // namespace dabke::timeline
