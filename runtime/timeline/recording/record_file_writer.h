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
  /// The names outlive it. `limit`: the most bytes of the file, 0 for no limit. From the first record on that has no room
  /// all are left out, and counted as lost; the file's head and its end are always there.
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
  /// Records of a block: what gathers while the writer sleeps, as a rule.
  static constexpr std::size_t kMostRecords = 4096;

  RecordFileWriter(OutputFile file, const NameTable& names, std::uint64_t limit);
  void add_origin(const TimelineOrigin& origin);
  void add_names();
  /// `begin`: where in `blocks_` the names begin that the records need.
  void leave_out_what_has_no_room(std::size_t begin);
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
  const std::uint64_t limit_;
  std::uint64_t left_out_ = 0;  // records that had no room
  bool is_full_ = false;        // nothing but the end goes to the file any more
  LastNames written_names_{};
  std::vector<Record> records_;            // of the block that is gathering
  std::string blocks_;                     // whole ones, and the one that is made
  std::size_t block_ = 0;                  // where in `blocks_` that begins
  std::optional<std::size_t> last_block_;  // of them, but for the origin
  std::uint64_t end_ = 0;                  // of the file
  std::uint64_t last_block_in_file_ = 0;   // where it begins; 0: there is none but the origin
  Status error_;
};

}  // namespace dabke::timeline
