#include "runtime/timeline/recording/record_file_writer.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace dabke::timeline {
namespace {

std::int64_t now_of(clockid_t clock) {
  struct timespec now {};
  ::clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// Reads both clocks at one moment, as exactly as three attempts allow.
std::pair<std::int64_t, std::int64_t> clock_pair() {
  std::pair<std::int64_t, std::int64_t> best;
  std::int64_t least = -1;
  for (int i = 0; i < 3; ++i) {
    const std::int64_t before = now_of(CLOCK_MONOTONIC);
    const std::int64_t real = now_of(CLOCK_REALTIME);
    const std::int64_t took = now_of(CLOCK_MONOTONIC) - before;
    if (least >= 0 && took >= least) continue;
    least = took;
    best = {before + took / 2, real};
  }
  return best;
}

}  // namespace

RecordFileWriter::RecordFileWriter(OutputFile file, const NameTable& names, std::uint64_t limit)
    : file_(std::move(file)), names_(names), limit_(limit) {
  records_.reserve(kMostRecords);
}

Result<std::unique_ptr<RecordWriter>> RecordFileWriter::open(const std::string& path,
                                                             const TimelineOrigin& origin,
                                                             const NameTable& names, std::uint64_t limit) {
  DABKE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::open(path));
  std::unique_ptr<RecordFileWriter> writer(new RecordFileWriter(std::move(file), names, limit));
  writer->add_origin(origin);
  return std::unique_ptr<RecordWriter>(std::move(writer));
}

void RecordFileWriter::add_origin(const TimelineOrigin& origin) {
  const FilePreface preface{.version = origin.roster ? kElasticVersion : kRecordVersion};
  append(&preface, sizeof preface);
  const ClockIdentity clock = clock_identity();
  OriginHead head;
  std::tie(head.monotonic_ns, head.realtime_ns) = clock_pair();
  head.epoch = origin.epoch;
  head.job_id = origin.job_id;
  head.rank = origin.rank;
  head.size = origin.size;
  head.host_bytes = static_cast<std::uint32_t>(origin.host.size());
  head.boot_bytes = static_cast<std::uint32_t>(clock.boot_id.size());
  head.time_namespace = clock.time_namespace;
  begin_block();
  append(&head, sizeof head);
  append(origin.host.data(), origin.host.size());
  append(clock.boot_id.data(), clock.boot_id.size());
  end_block(BlockKind::origin, 1);
  if (!origin.roster) return;
  const std::string roster = to_text(*origin.roster);
  begin_block();
  append(roster.data(), roster.size());
  end_block(BlockKind::epoch, 1);
}

void RecordFileWriter::write(const Record& record) {
  records_.push_back(record);
  if (records_.size() == kMostRecords) flush();
}

void RecordFileWriter::mark_lost(std::int64_t time_ns, std::uint64_t count) {
  write({.time_ns = time_ns, .bytes = count, .what = Record::What::lost});
}

void RecordFileWriter::finish(std::int64_t, const EndCounts& counts) {
  flush();
  EndCounts written = counts;
  written.records -= left_out_;
  written.lost += left_out_;
  if (left_out_ != 0) written.limit = limit_;
  begin_block();
  append(&written, sizeof written);
  end_block(BlockKind::end, 1);
}

/// A thread gets a name's number before it records the number, so the table has the names of all gathered
/// records.
void RecordFileWriter::flush() {
  if (error_.is_ok()) {
    const std::size_t begin = blocks_.size();
    if (!is_full_) add_names();
    if (limit_ != 0) leave_out_what_has_no_room(begin);
    add_records();
    OutputFile::Written written;
    error_ = file_.write_at(end_, blocks_, written);
    if (error_.is_ok()) {
      if (last_block_) last_block_in_file_ = end_ + *last_block_;
      end_ += blocks_.size();
    } else {
      end_early(written);
    }
  }
  blocks_.clear();
  last_block_.reset();
  records_.clear();
}

void RecordFileWriter::leave_out_what_has_no_room(std::size_t begin) {
  constexpr std::uint64_t kRest =
      2 * sizeof(BlockHead) + sizeof(EndCounts);  // the heads of the records and of the end, and the end
  if (is_full_ || end_ + blocks_.size() + kRest > limit_) {
    is_full_ = true;
    blocks_.resize(begin);
  }
  const std::size_t fit =
      is_full_ ? 0 : static_cast<std::size_t>((limit_ - end_ - blocks_.size() - kRest) / sizeof(Record));
  if (fit >= records_.size()) return;
  is_full_ = true;
  const auto is_counted = [](const Record& record) { return record.what != Record::What::lost; };
  left_out_ += static_cast<std::uint64_t>(
      std::ranges::count_if(records_.begin() + static_cast<std::ptrdiff_t>(fit), records_.end(), is_counted));
  records_.resize(fit);
}

Status RecordFileWriter::close() {
  flush();
  if (Status closed = file_.close(); error_.is_ok()) error_ = std::move(closed);
  return error_;
}

void RecordFileWriter::add_names() {
  std::size_t count = 0;
  for (const NameKind kind : kAllNameKinds) {
    const std::size_t all = names_.count(kind);
    for (std::uint32_t& number = written_names_[index_of(kind)]; number < all;) {
      if (count++ == 0) begin_block();
      ++number;
      const std::string_view name =
          names_.name(kind, number).substr(0, static_cast<std::size_t>(kLongestName));
      const NameHead head{static_cast<std::uint32_t>(kind), number, name.size()};
      append(&head, sizeof head);
      append(name.data(), name.size());
      fill();
    }
  }
  if (count != 0) end_block(BlockKind::names, count);
}

void RecordFileWriter::add_records() {
  if (records_.empty()) return;
  begin_block();
  append(records_.data(), records_.size() * sizeof(Record));
  end_block(BlockKind::records, records_.size());
}

void RecordFileWriter::begin_block() {
  block_ = blocks_.size();
  blocks_.append(sizeof(BlockHead), '\0');
}

void RecordFileWriter::end_block(BlockKind kind, std::size_t count) {
  fill();
  BlockHead head{kind, static_cast<std::uint32_t>(count), blocks_.size() - block_ - sizeof(BlockHead)};
  head.check = check_of(head, std::string_view(blocks_).substr(block_ + sizeof head));
  std::memcpy(blocks_.data() + block_, &head, sizeof head);
  if (kind != BlockKind::origin && kind != BlockKind::epoch) last_block_ = block_;
}

void RecordFileWriter::end_early(const OutputFile::Written& written) {
  constexpr std::size_t kSize = sizeof(BlockHead) + sizeof(WriteFailure);
  std::size_t whole = 0;
  std::size_t at = end_ == 0 ? sizeof(FilePreface) : 0;
  for (BlockHead head; at + sizeof head <= written.bytes; whole = at) {
    std::memcpy(&head, blocks_.data() + at, sizeof head);
    at += sizeof head + head.bytes;
    if (at + kSize > written.bytes) break;
  }
  end_ += whole;
  blocks_.clear();
  begin_block();
  const WriteFailure failure{written.error};
  append(&failure, sizeof failure);
  end_block(BlockKind::failure, 1);
  // The block usually overwrites half of an unfinished block, which needs no new room. If that fails, it
  // overwrites the last whole block. If that fails too, the reader finds no end.
  for (const std::uint64_t at : {end_, last_block_in_file_}) {
    OutputFile::Written outcome;
    if (at == 0 || !file_.write_at(at, blocks_, outcome).is_ok()) continue;
    end_ = at + blocks_.size();
    break;
  }
  (void)file_.cut_at(end_);
}

void RecordFileWriter::append(const void* from, std::size_t bytes) {
  blocks_.append(static_cast<const char*>(from), bytes);
}

/// Appends zeros up to a multiple of 8.
void RecordFileWriter::fill() { blocks_.append((8 - blocks_.size() % 8) % 8, '\0'); }

}  // namespace dabke::timeline
