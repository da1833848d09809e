// The interface of the files that the timeline's writer thread writes.
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
  /// Marks the time before which `count` records were lost.
  virtual void mark_lost(std::int64_t time_ns, std::uint64_t count) = 0;
  /// Ends all open events, and writes how many records were written and lost.
  virtual void finish(std::int64_t time_ns, const EndCounts& counts) = 0;
  /// Writes all gathered records to the file. After the first error they are discarded.
  virtual void flush() = 0;
  /// The size of the file in bytes.
  virtual std::uint64_t bytes() const = 0;
  /// The approximate size of a record in the file, in bytes.
  virtual std::uint64_t bytes_of_record() const = 0;
  /// The first error since the file was opened.
  virtual const Status& error() const = 0;
  /// Flushes and closes. Returns the first error since the file was opened.
  virtual Status close() = 0;
};

}  // namespace dabke::timeline
