// What the timeline's writer thread writes to.
#pragma once

#include <cstdint>

#include "runtime/base/status.h"
#include "runtime/timeline/record.h"
#include "runtime/timeline/record_form.h"

namespace dabke::timeline {

class RecordWriter {
 public:
  virtual ~RecordWriter() = default;
  virtual void write(const Record& record) = 0;
  /// Marks a moment before which `count` records were lost.
  virtual void mark_lost(std::int64_t time_ns, std::uint64_t count) = 0;
  /// Ends all that is open, and says how many records were written and lost.
  virtual void finish(std::int64_t time_ns, const EndCounts& counts) = 0;
  /// All that has gathered goes to the file. After the first error it is only thrown away.
  virtual void flush() = 0;
  /// How large the file is.
  virtual std::uint64_t bytes() const = 0;
  /// How many bytes a record takes, about.
  virtual std::uint64_t bytes_of_record() const = 0;
  /// The first error since the file was opened.
  virtual const Status& error() const = 0;
  /// Flushes and closes; the first error since the file was opened.
  virtual Status close() = 0;
};

}  // namespace dabke::timeline
