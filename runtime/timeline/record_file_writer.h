// Writes one rank's records to its file, in blocks (record_form.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/timeline/name_table.h"
#include "runtime/timeline/output_file.h"
#include "runtime/timeline/record_form.h"
#include "runtime/timeline/record_writer.h"

namespace dabke {

class RecordFileWriter final : public RecordWriter {
 public:
  /// The names outlive it.
  static Result<std::unique_ptr<RecordWriter>> open(const std::string& path, const TimelineOrigin& origin,
                                                    const NameTable& names);

  void write(const Record& record) override;
  void mark_lost(std::int64_t time_ns, std::uint64_t count) override;
  void finish(std::int64_t time_ns, const EndCounts& counts) override;
  void flush() override;
  std::uint64_t bytes() const override { return end_; }
  const Status& error() const override { return error_; }
  Status close() override;

 private:
  /// Records of a block: what gathers while the writer sleeps, as a rule.
  static constexpr std::size_t kMostRecords = 4096;

  RecordFileWriter(OutputFile file, const NameTable& names);
  void add_origin(const TimelineOrigin& origin);
  void add_names();
  void add_records();
  /// A block of what has been put behind the head at `begin`.
  void begin_block();
  void end_block(BlockKind kind, std::size_t count);
  void append(const void* from, std::size_t bytes);
  void fill();
  /// Ends the file, after an error, behind a block that is whole, and says why there.
  void end_early(const OutputFile::Written& written);

  OutputFile file_;
  const NameTable& names_;
  LastNames written_names_{};
  std::vector<Record> records_;  // of the block that is gathering
  std::string blocks_;           // whole ones, and the one that is made
  std::size_t block_ = 0;        // where in `blocks_` that begins
  std::uint64_t end_ = 0;        // of the file
  Status error_;
};

}  // namespace dabke
