// Reads one rank's records back. The file may be anybody's: whatever is in it, reading ends, with all that was whole or
// with an error that names the file and the place in it, and takes no more memory than the file is long.
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
    std::int64_t monotonic_ns = 0;  // both clocks of the host as the file was opened
    std::int64_t realtime_ns = 0;
    ClockIdentity clock;
  };

  /// An error where it is no such file, of another version, or ends before it says whose it is.
  static Result<RecordFile> open(std::string path);

  const Origin& origin() const { return origin_; }

  /// Puts the records of the next block in `records`; false where there is no more. All that they mention has a name
  /// then. An error where the file is damaged; what came before is right.
  Result<bool> next(std::vector<Record>& records);

  std::size_t count(NameKind kind) const { return names_[dabke::timeline::index_of(kind)].size(); }
  /// `number` as a record that was read has it, and not 0.
  std::string_view name(NameKind kind, std::uint32_t number) const {
    return names_[dabke::timeline::index_of(kind)][number - 1];
  }

  /// Whether the file ends with what is written last, also where it could not be written to its end.
  static bool is_closed(const std::string& path);

  // ---- when next() has said that there is no more
  /// What is missing of a file that was not closed, in words; empty: nothing.
  const std::string& missing() const { return missing_; }
  /// What its last words say; nothing where it was not closed.
  const std::optional<EndCounts>& end() const { return end_; }

 private:
  struct Block {
    BlockHead head;
    std::uint64_t at = 0;  // where in the file it begins
    std::string content;
  };

  RecordFile(std::string path, Fd fd, std::uint64_t size)
      : path_(std::move(path)), fd_(std::move(fd)), size_(size) {}
  Status read_origin();
  Status read_at(std::uint64_t at, void* into, std::size_t bytes) const;
  /// Nothing where the file ends, or was cut.
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
  std::uint64_t at_ = 0;  // the next block
  Origin origin_;
  std::array<std::vector<std::string>, kNameKinds> names_;
  std::string missing_;
  std::optional<EndCounts> end_;
};

}  // namespace dabke::timeline
