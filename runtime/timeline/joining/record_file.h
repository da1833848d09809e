// Reads one rank's records back. The file is not trusted: whatever it contains, reading ends, and needs no
// more memory than the file is long. Reading returns all valid blocks, or an error that names the file and
// the offset.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/threads/owned.h"
#include "runtime/timeline/record_form.h"

namespace dabke::timeline {

class RecordFile {
 public:
  struct Origin : TimelineOrigin {
    std::int64_t monotonic_ns = 0;  // both clocks of the host when the file was opened
    std::int64_t realtime_ns = 0;
    ClockIdentity clock;
  };

  /// Opens the file. It is an error if this is not a file of records, has another version, or ends before its
  /// origin.
  static Result<RecordFile> open(std::string path);

  const Origin& origin() const { return origin_; }

  /// Puts the records of the next block into `records`; returns false if there are no more. All names that
  /// they refer to are known then. It is an error if the file is damaged; records that were read before are
  /// valid.
  Result<bool> next(std::vector<Record>& records);

  /// Closes the file. The names stay, and nothing more can be read.
  void close() { fd_ = Fd(); }

  std::size_t count(NameKind kind) const { return names_[dabke::timeline::index_of(kind)].size(); }
  /// `number` must come from a record that was read, and must not be 0.
  std::string_view name(NameKind kind, std::uint32_t number) const {
    return names_[dabke::timeline::index_of(kind)][number - 1];
  }

  /// True if the file has its last block, which may also be the block of a failed write.
  static bool is_closed(const std::string& path);

  // ---- once next() has returned false
  /// A sentence on what is missing in a file that was not closed; empty if nothing is missing.
  const std::string& missing() const { return missing_; }
  /// The content of the end block; nothing if the file was not closed.
  const std::optional<EndCounts>& end() const { return end_; }

 private:
  struct Block {
    BlockHead head;
    std::uint64_t at = 0;  // offset of the block in the file
    std::string content;
  };

  RecordFile(std::string path, Fd fd, std::uint64_t size)
      : path_(std::move(path)), fd_(std::move(fd)), size_(size) {}
  Status read_origin();
  /// Reads the block after the origin, in the file of an elastic job.
  Status read_roster();
  Status ends_in_header() const;
  Status read_at(std::uint64_t at, void* into, std::size_t bytes) const;
  /// Returns nothing if the file ends here or was cut.
  Result<std::optional<Block>> next_block();
  Status take_names(const Block& block);
  Status take_records(const Block& block, std::vector<Record>& records) const;
  Status take_end(const Block& block);
  Status take_failure(const Block& block);
  std::string fault_of(const Record& record) const;
  bool is_known(NameKind kind, std::uint32_t number) const { return number <= count(kind); }
  Status damaged(std::uint64_t at, std::string_view what) const;

  std::string path_;
  Fd fd_;
  std::uint64_t size_ = 0;
  std::uint64_t at_ = 0;  // offset of the next block
  Origin origin_;
  std::array<std::vector<std::string>, kNameKinds> names_;
  std::string missing_;
  std::optional<EndCounts> end_;
};

}  // namespace dabke::timeline
