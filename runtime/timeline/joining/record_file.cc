#include "runtime/timeline/joining/record_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace dabke::timeline {
namespace {

constexpr std::uint64_t kLongestHost = 4096;
/// The limits of times and of clock offsets, in nanoseconds: 146 and 36 years. Sums of such numbers do not
/// overflow.
constexpr std::int64_t kLastTime = std::int64_t{1} << 62;
constexpr std::int64_t kMostAhead = std::int64_t{1} << 60;

bool is_time(std::int64_t ns) { return ns >= 0 && ns <= kLastTime; }

std::uint64_t filled(std::uint64_t bytes) { return (bytes + 7) / 8 * 8; }

template <class Head>
Head head_at(std::string_view content, std::size_t at) {
  Head head;
  std::memcpy(&head, content.data() + at, sizeof head);
  return head;
}

bool is_known(Record::What what) {
  switch (what) {
#define X(id, ...) case Record::What::id:
    DABKE_RECORDS(X)
#undef X
    return true;
  }
  return false;
}

std::optional<NameKind> name_kind(std::uint32_t number) {
  if (number < 1 || number > kNameKinds) return std::nullopt;
  return static_cast<NameKind>(number);
}

/// True if the last block is one of this kind that holds one Content.
template <class Content>
bool ends_with(int fd, BlockKind kind) {
  struct {
    BlockHead head;
    Content content;
  } last;
  static_assert(sizeof last == sizeof(BlockHead) + sizeof(Content));
  const off_t size = ::lseek(fd, 0, SEEK_END);
  if (size < off_t{sizeof last}) return false;
  if (::pread(fd, &last, sizeof last, size - off_t{sizeof last}) != ssize_t{sizeof last}) return false;
  const std::string_view content(reinterpret_cast<const char*>(&last.content), sizeof last.content);
  return last.head.kind == kind && last.head.bytes == sizeof last.content &&
         last.head.check == check_of(last.head, content);
}

}  // namespace

Result<RecordFile> RecordFile::open(std::string path) {
  // O_NONBLOCK, because opening a pipe that nobody writes would wait for ever.
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0)
    return system_error(fmt::format("cannot read the records in '{}'", path), errno);
  if (!S_ISREG(info.st_mode))
    return Status(Code::invalid_argument,
                  fmt::format("cannot read the records in '{}': not a regular file", path));
  RecordFile file(std::move(path), std::move(fd), static_cast<std::uint64_t>(info.st_size));
  DABKE_RETURN_IF_ERROR(file.read_origin());
  return file;
}

bool RecordFile::is_closed(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  return fd && (ends_with<EndCounts>(fd.get(), BlockKind::end) ||
                ends_with<WriteFailure>(fd.get(), BlockKind::failure));
}

Status RecordFile::damaged(std::uint64_t at, std::string_view what) const {
  return {Code::invalid_argument, fmt::format("'{}' is damaged at byte {}: {}", path_, at, what)};
}

Status RecordFile::read_at(std::uint64_t at, void* into, std::size_t bytes) const {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t step =
        ::pread(fd_.get(), static_cast<char*>(into) + done, bytes - done, static_cast<off_t>(at + done));
    if (step < 0 && errno == EINTR) continue;
    if (step < 0) return system_error(fmt::format("reading '{}' failed at byte {}", path_, at + done), errno);
    if (step == 0) return damaged(at + done, "it became shorter while it was read");
    done += static_cast<std::size_t>(step);
  }
  return {};
}

Status RecordFile::read_origin() {
  FilePreface preface;
  if (size_ < sizeof preface) {
    return {Code::invalid_argument,
            fmt::format("'{}' has only {} bytes: the rank was killed while opening it or could not write it "
                        "(a full disk?), or it is not a file of timeline records",
                        path_, size_)};
  }
  DABKE_RETURN_IF_ERROR(read_at(0, &preface, sizeof preface));
  if (preface.magic != kRecordMagic)
    return {Code::invalid_argument, fmt::format("'{}' is not a file of timeline records", path_)};
  if (preface.version < kRecordVersion || preface.version > kElasticVersion ||
      preface.record_bytes != sizeof(Record)) {
    return {Code::invalid_argument, fmt::format("'{}' has records of version {} ({} bytes each); this "
                                                "program reads versions {} and {} ({} bytes)",
                                                path_, preface.version, preface.record_bytes, kRecordVersion,
                                                kElasticVersion, sizeof(Record))};
  }
  at_ = sizeof preface;
  DABKE_ASSIGN_OR_RETURN(const auto block, next_block());
  if (!block) return ends_in_header();
  const std::uint64_t size = block->content.size();
  if (block->head.kind != BlockKind::origin || block->head.count != 1 || size < sizeof(OriginHead))
    return damaged(block->at, "it does not begin with a header");
  const auto head = head_at<OriginHead>(block->content, 0);
  const std::uint64_t texts = std::uint64_t{head.host_bytes} + head.boot_bytes;
  if (head.host_bytes > kLongestHost || head.boot_bytes > kLongestHost || size != sizeof head + filled(texts))
    return damaged(block->at, "the names of its host are too long");
  if (head.rank < 0 || head.size < 1 || head.rank >= head.size)
    return damaged(block->at, fmt::format("it belongs to rank {} in a job of {}", head.rank, head.size));
  if (!is_time(head.monotonic_ns) || !is_time(head.realtime_ns))
    return damaged(block->at, "it was opened at an impossible time");
  static_cast<TimelineOrigin&>(origin_) = {
      head.job_id, head.epoch, head.rank, head.size, block->content.substr(sizeof head, head.host_bytes),
      std::nullopt};
  origin_.monotonic_ns = head.monotonic_ns;
  origin_.realtime_ns = head.realtime_ns;
  origin_.clock = {block->content.substr(sizeof head + head.host_bytes, head.boot_bytes),
                   head.time_namespace};
  return preface.version == kElasticVersion ? read_roster() : Status();
}

Status RecordFile::ends_in_header() const {
  return {Code::invalid_argument, fmt::format("'{}' ends inside its header: the rank was killed while "
                                              "opening it, or could not write it (a full disk?)",
                                              path_)};
}

Status RecordFile::read_roster() {
  DABKE_ASSIGN_OR_RETURN(const auto block, next_block());
  if (!block) return ends_in_header();
  if (block->head.kind != BlockKind::epoch || block->head.count != 1)
    return damaged(block->at, "the members of its epoch are missing");
  const std::size_t end = block->content.find_last_not_of('\0');
  origin_.roster = read_epoch_roster(block->content.substr(0, end == std::string::npos ? 0 : end + 1));
  if (!origin_.roster) return damaged(block->at, "the text with the members of its epoch makes no sense");
  if (origin_.roster->members.size() != static_cast<std::size_t>(origin_.size))
    return damaged(block->at, fmt::format("its epoch has {} ranks, but names {}", origin_.size,
                                          origin_.roster->members.size()));
  return {};
}

Result<std::optional<RecordFile::Block>> RecordFile::next_block() {
  const std::uint64_t left = size_ - at_;
  const auto ends = [&](std::string missing) -> std::optional<Block> {
    missing_ = fmt::format("'{}' {}", path_, missing);
    return std::nullopt;
  };
  if (left == 0)
    return ends(
        "was not closed: the rank was killed, could not write it, or still writes; its last moments may be "
        "missing");
  Block block;
  block.at = at_;
  const auto cut = [&] {
    return ends(
        fmt::format("was cut off in the middle of a block: the {} bytes from byte {} on are incomplete, and "
                    "all later records are missing",
                    left, block.at));
  };
  if (left < sizeof block.head) return cut();
  DABKE_RETURN_IF_ERROR(read_at(at_, &block.head, sizeof block.head));
  const std::uint64_t bytes = block.head.bytes;
  if (bytes % 8 != 0 || block.head.kind < BlockKind::origin || block.head.kind > BlockKind::epoch)
    return damaged(at_, "there is no block");
  if (bytes > left - sizeof block.head) return cut();
  block.content.resize(bytes);
  DABKE_RETURN_IF_ERROR(read_at(at_ + sizeof block.head, block.content.data(), bytes));
  if (check_of(block.head, block.content) != block.head.check)
    return damaged(at_, "the block's content was changed");
  at_ += sizeof block.head + bytes;
  return std::optional(std::move(block));
}

Result<bool> RecordFile::next(std::vector<Record>& records) {
  records.clear();
  while (!end_ && missing_.empty()) {
    DABKE_ASSIGN_OR_RETURN(const auto block, next_block());
    if (!block) return false;
    switch (block->head.kind) {
      case BlockKind::origin:
      case BlockKind::epoch: return damaged(block->at, "it has a second header");
      case BlockKind::names: DABKE_RETURN_IF_ERROR(take_names(*block)); break;
      case BlockKind::records: DABKE_RETURN_IF_ERROR(take_records(*block, records)); return true;
      case BlockKind::end: DABKE_RETURN_IF_ERROR(take_end(*block)); break;
      case BlockKind::failure: DABKE_RETURN_IF_ERROR(take_failure(*block)); break;
    }
  }
  return false;
}

Status RecordFile::take_names(const Block& block) {
  std::size_t at = 0;
  const std::string_view content = block.content;
  for (std::uint32_t i = 0; i < block.head.count; ++i) {
    const std::uint64_t place = block.at + sizeof block.head + at;
    if (content.size() - at < sizeof(NameHead))
      return damaged(place, fmt::format("{} names are in a block for {}", i, block.head.count));
    const auto head = head_at<NameHead>(content, at);
    at += sizeof head;
    const auto kind = name_kind(head.kind);
    if (!kind) return damaged(place, fmt::format("a name of the unknown kind {}", head.kind));
    if (head.number != count(*kind) + 1 || head.number > most_of(*kind) + 1)
      return damaged(place,
                     fmt::format("name {} of kind {} comes after {}", head.number, head.kind, count(*kind)));
    if (head.bytes > kLongestName || filled(head.bytes) > content.size() - at)
      return damaged(place, fmt::format("a name of {} bytes is longer than its block", head.bytes));
    if (*kind == NameKind::shape && head.bytes % sizeof(std::int64_t) != 0)
      return damaged(place, fmt::format("a shape of {} bytes", head.bytes));
    names_[dabke::timeline::index_of(*kind)].emplace_back(content.substr(at, head.bytes));
    at += filled(head.bytes);
  }
  return at == content.size() ? Status()
                              : damaged(block.at, fmt::format("more than {} names", block.head.count));
}

Status RecordFile::take_records(const Block& block, std::vector<Record>& records) const {
  if (block.head.bytes != filled(std::uint64_t{block.head.count} * sizeof(Record)))
    return damaged(block.at, fmt::format("{} records in {} bytes", block.head.count, block.head.bytes));
  records.resize(block.head.count);
  for (std::size_t i = 0; i < records.size(); ++i) {
    std::memcpy(static_cast<void*>(&records[i]), block.content.data() + i * sizeof(Record), sizeof(Record));
    if (const std::string fault = fault_of(records[i]); !fault.empty()) {
      records.clear();
      return damaged(block.at + sizeof block.head + i * sizeof(Record), fault);
    }
  }
  return {};
}

Status RecordFile::take_end(const Block& block) {
  if (block.head.count != 1 || block.content.size() != sizeof(EndCounts))
    return damaged(block.at, "its end lacks the number of records");
  if (at_ != size_) return damaged(at_, "more data follows its end");
  end_ = head_at<EndCounts>(block.content, 0);
  return {};
}

Status RecordFile::take_failure(const Block& block) {
  if (block.head.count != 1 || block.content.size() != sizeof(WriteFailure))
    return damaged(block.at, "its end lacks the reason why it could not be written");
  if (at_ != size_) return damaged(at_, "more data follows its end");
  const auto error = static_cast<int>(head_at<WriteFailure>(block.content, 0).error);
  missing_ = system_error(fmt::format("'{}' could not be written completely", path_), error).message();
  return {};
}

/// Returns the reason why this record cannot be valid; empty if it is valid.
std::string RecordFile::fault_of(const Record& record) const {
  const auto unknown = [](std::string_view what, std::uint64_t number) {
    return fmt::format("a record of the unknown {} {}", what, number);
  };
  if (!is_time(record.time_ns)) return fmt::format("a record of the impossible time {} ns", record.time_ns);
  if (!timeline::is_known(record.what)) return unknown("what", static_cast<std::uint8_t>(record.what));
  if (record.kind > kLast<CollectiveKind>) return unknown("kind", static_cast<std::uint8_t>(record.kind));
  if (static_cast<std::size_t>(record.dtype) >= kDTypes.size())
    return unknown("dtype", static_cast<std::uint8_t>(record.dtype));
  if ((record.flags & ~(Record::kEnd | Record::kFirst | Record::kLast)) != 0)
    return unknown("flags", record.flags);
  const NameKind names = record.what == Record::What::span  ? NameKind::span
                         : record.what == Record::What::run ? NameKind::text
                                                            : NameKind::tensor;
  if (!is_known(names, record.name)) return unknown("name", record.name);
  if (!is_known(NameKind::thread, record.thread)) return unknown("thread", record.thread);
  if (!is_known(NameKind::text, record.backend)) return unknown("backend", record.backend);
  if (!is_known(NameKind::text, record.algorithm)) return unknown("algorithm", record.algorithm);
  const bool has_shape = record.what == Record::What::done;
  const bool has_error = record.what == Record::What::error;
  if (record.what == Record::What::leave && !is_known(NameKind::error, record.number))
    return unknown("error", record.number);
  if (has_shape && (record.number == 0 || !is_known(NameKind::shape, record.number)))
    return unknown("shape", record.number);
  if (has_error && (record.number == 0 || !is_known(NameKind::error, record.number)))
    return unknown("error", record.number);
  const bool is_of_a_tensor = record.what == Record::What::submit || record.what == Record::What::ready ||
                              record.what == Record::What::order || has_shape || has_error;
  if (is_of_a_tensor && record.name == 0) return "a record of no tensor";
  if (record.what == Record::What::span && !record.is_end() && record.name == 0)
    return "a span without a name";
  if (record.what == Record::What::clock && record.number >= static_cast<std::uint32_t>(origin_.size))
    return unknown("rank", record.number);
  const auto ahead = static_cast<std::int64_t>(record.bytes);
  if (record.what == Record::What::clock &&
      (ahead < -kMostAhead || ahead > kMostAhead || record.batch > std::uint64_t{kMostAhead}))
    return fmt::format("a clock that is {} ns ahead, give or take {}", ahead, record.batch);
  return {};
}

}  // namespace dabke::timeline
