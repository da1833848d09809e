// Writes one rank's records to its file, in blocks (record_form.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/timeline/name_table.h"
#include "runtime/timeline/output_file.h"
#include "runtime/timeline/record_form.h"
#include "runtime/timeline/record_writer.h"

namespace dabke::timeline {

class RecordFileWriter final : public RecordWriter {
 public:
  /// `names` must outlive the writer. `limit` is the largest size of the file in bytes; 0 for no limit. The
  /// first record that has no room and all records after it are left out, and counted as lost. The file
  /// always has its head and its end.
  static Result<std::unique_ptr<RecordWriter>> open(const std::string& path, const TimelineOrigin& origin,
                                                    const NameTable& names, std::uint64_t limit = 0);

  void write(const Record& record) override;
  void mark_lost(std::int64_t time_ns, std::uint64_t count) override;
  void finish(std::int64_t time_ns, const EndCounts& counts) override;
  void flush() override;
  std::uint64_t bytes() const override { return end_; }
  std::uint64_t bytes_of_record() const override { return sizeof(Record); }
  const Status& error() const override { return error_; }
  Status close() override;

 private:
  /// The most records of a block. Usually no more gather while the writer sleeps.
  static constexpr std::size_t kMostRecords = 4096;

  RecordFileWriter(OutputFile file, const NameTable& names, std::uint64_t limit);
  void add_origin(const TimelineOrigin& origin);
  void add_names();
  /// `begin` is the offset in `blocks_` where the names of these records begin.
  void leave_out_what_has_no_room(std::size_t begin);
  void add_records();
  /// begin_block() adds a block's head; end_block() fills it in for the content that was appended since.
  void begin_block();
  void end_block(BlockKind kind, std::size_t count);
  void append(const void* from, std::size_t bytes);
  void fill();
  /// After an error: ends the file behind a whole block, with a block that holds the error.
  void end_early(const OutputFile::Written& written);

  OutputFile file_;
  const NameTable& names_;
  const std::uint64_t limit_;
  std::uint64_t left_out_ = 0;  // records that had no room
  bool is_full_ = false;        // only the end is still written to the file
  LastNames written_names_{};
  std::vector<Record> records_;            // records of the block that is being filled
  std::string blocks_;                     // whole blocks, and the block that is being made
  std::size_t block_ = 0;                  // offset of that block in `blocks_`
  std::optional<std::size_t> last_block_;  // offset in `blocks_` of the last block, other than the origin
  std::uint64_t end_ = 0;                  // size of the file
  std::uint64_t last_block_in_file_ =
      0;  // offset in the file of the last block; 0 if only the origin is there
  Status error_;
};

}  // namespace dabke::timeline
