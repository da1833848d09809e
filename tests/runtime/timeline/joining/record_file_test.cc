#include "runtime/timeline/joining/record_file.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "tests/child_process.h"
#include "tests/facts.h"
#include "tests/patience.h"
#include "tests/runtime/timeline/trace.h"

namespace dabke::test {
namespace {

using Catch::Contains;
using namespace std::chrono_literals;

const timeline::TimelineOrigin kOrigin{
    .job_id = {std::byte{7}}, .epoch = 9, .rank = 3, .size = 5, .host = "node-b"};

/// The whole content of a file.
struct Seen {
  std::optional<timeline::RecordFile> file;  // nothing: it could not be opened
  std::vector<timeline::Record> records;
  Status status;
};

Seen read(const std::string& path) {
  Seen seen;
  auto file = timeline::RecordFile::open(path);
  seen.status = file.status();
  if (!file) return seen;
  seen.file = file.take();
  std::vector<timeline::Record> block;
  while (true) {
    const Result<bool> more = seen.file->next(block);
    seen.status = more.status();
    if (!more || !*more) return seen;
    seen.records.insert(seen.records.end(), block.begin(), block.end());
  }
}

timeline::Timeline::Options options_for(const test::TemporaryDirectory& folder,
                                        std::size_t queue_records = 1 << 12) {
  return {.path = folder.path() + "/trace",
          .mark_cycles = true,
          .format = TimelineFormat::records,
          .origin = kOrigin,
          .queue_records = queue_records};
}

std::string must_close(timeline::Timeline& timeline, test::TemporaryDirectory& folder) {
  if (const Status closed = timeline.close(); !closed.is_ok()) throw std::runtime_error(closed.message());
  return folder / "trace.rank3";
}

/// Records something of every kind.
void record_all(timeline::Timeline& timeline) {
  const auto id = timeline.tensor("layer.1");
  timeline::Record about{.order = 17,
                         .batch = 16,
                         .bytes = 24,
                         .name = id,
                         .process_set = 2,
                         .number = 1,
                         .kind = CollectiveKind::allgather,
                         .dtype = DType::f32};
  const auto put = [&](timeline::Record::What what, int flags = 0) {
    timeline::Record record = about;
    record.what = what;
    record.flags = static_cast<std::uint8_t>(flags);
    timeline.put(record);
  };
  put(timeline::Record::What::submit);
  timeline.ready(id, CollectiveKind::allgather, 2, 0, timeline::Record::kFirst);
  timeline.ready(id, CollectiveKind::allgather, 2, 1, timeline::Record::kLast);
  put(timeline::Record::What::order);
  for (const auto what :
       {timeline::Record::What::queue, timeline::Record::What::wait_for_data,
        timeline::Record::What::allocate, timeline::Record::What::pack, timeline::Record::What::unpack}) {
    put(what);
    put(what, timeline::Record::kEnd);
  }
  timeline::Record run = about;
  run.what = timeline::Record::What::run;
  run.name = timeline.text("GLOO_ALLGATHER");
  run.backend = timeline.text("gloo");
  run.algorithm = timeline.text("allgather");
  timeline.put(run);
  timeline.done(about, Shape{2, 3});
  timeline.done(about, Shape{1, 1, 1, 1, 1, 1, 1, 1, 5'000'000'000});
  timeline.done(about, Shape{});
  timeline.error(about, {Code::mismatch, "an error\nof two lines"});
  timeline.begin_span("forward \xff");
  timeline.end_span();
  timeline.mark_step(~std::uint64_t{0});
  timeline.mark_cycle();
  timeline.put({.batch = 100,
                .bytes = static_cast<std::uint64_t>(-5),
                .number = 4,
                .what = timeline::Record::What::clock});
}

TEST_CASE(
    "a file of records never exceeds its limit, though nobody stops recording, and has the first records") {
  constexpr std::uint64_t kRecords = 20'000;
  const std::uint64_t limit = GENERATE(1000, 4096, 100'000, 700'000);
  test::TemporaryDirectory folder;
  timeline::Timeline::Options options = options_for(folder, 1 << 15);
  options.max_bytes = limit;
  int called = 0;  // called by the writer's thread, for which close() waits
  options.on_full = [&] { ++called; };
  const auto timeline = test::must_open(options);
  int nears = 0;
  for (std::uint64_t i = 0; i < kRecords; ++i) {
    const auto name = timeline->tensor("layer." + std::to_string(i % 500));
    timeline->put({.bytes = i, .name = name, .what = timeline::Record::What::order});
    if (i % 10 == 0 && timeline->nears_limit()) ++nears;
  }
  const std::string path = must_close(*timeline, folder);
  CHECK(std::filesystem::file_size(path) <= limit);
  CHECK(nears + called == 1);
  const Seen seen = read(path);
  REQUIRE(seen.status.is_ok());
  REQUIRE(seen.file->end());
  CHECK(seen.file->end()->limit == limit);
  CHECK(seen.file->end()->lost > 0);
  CHECK(seen.file->end()->records + seen.file->end()->lost == kRecords);
  CHECK(seen.file->end()->records == seen.records.size());
  for (std::size_t i = 0; i < seen.records.size(); ++i) REQUIRE(seen.records[i].bytes == i);
}

TEST_CASE("what is put tells that a file nears its limit, before any of it is written") {
  test::TemporaryDirectory folder;
  timeline::Timeline::Options options = options_for(folder, 1 << 15);
  options.max_bytes = 1'000'000;
  const auto timeline = test::must_open(options);
  const auto put_bytes = [&](std::size_t bytes) {
    for (std::size_t i = 0; i < bytes / sizeof(timeline::Record); ++i)
      timeline->put({.what = timeline::Record::What::cycle});
  };
  put_bytes(150'000);
  CHECK_FALSE(timeline->nears_limit());
  SECTION("records") { put_bytes(650'000); }
  SECTION("a name") { (void)timeline->tensor(std::string(650'000, 'x')); }
  CHECK(timeline->nears_limit());
  CHECK_FALSE(timeline->nears_limit());
  const std::string path = must_close(*timeline, folder);
  const Seen seen = read(path);
  REQUIRE(seen.file->end());
  CHECK(seen.file->end()->lost == 0);
  CHECK(std::filesystem::file_size(path) <= options.max_bytes);
}

TEST_CASE("records are read back as they were made, with their names and whose they are") {
  test::TemporaryDirectory folder;
  const auto before = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
  const auto timeline = test::must_open(options_for(folder));
  record_all(*timeline);
  const Seen seen = read(must_close(*timeline, folder));
  REQUIRE(seen.status.is_ok());
  const timeline::RecordFile& file = *seen.file;
  CHECK(file.missing().empty());
  REQUIRE(file.end());
  CHECK(file.end()->records == seen.records.size());
  CHECK(file.end()->lost == 0);
  const auto& origin = file.origin();
  CHECK(origin.job_id == kOrigin.job_id);
  CHECK(origin.epoch == 9);
  CHECK(origin.rank == 3);
  CHECK(origin.size == 5);
  CHECK(origin.host == "node-b");
  CHECK(origin.clock == timeline::clock_identity());
  CHECK(origin.monotonic_ns >= before);
  CHECK(origin.realtime_ns > 1'600'000'000'000'000'000);

  REQUIRE(seen.records.size() == 24);
  const timeline::Record& submit = seen.records[0];
  CHECK(submit.what == timeline::Record::What::submit);
  CHECK(submit.time_ns >= before);
  CHECK(submit.bytes == 24);
  CHECK(submit.process_set == 2);
  CHECK(submit.kind == CollectiveKind::allgather);
  CHECK(submit.dtype == DType::f32);
  CHECK(file.name(timeline::NameKind::tensor, submit.name) == "layer.1");
  CHECK_THAT(std::string(file.name(timeline::NameKind::thread, submit.thread)),
             Contains(std::to_string(::gettid())));
  CHECK(seen.records[2].number == 1);
  CHECK(seen.records[2].flags == timeline::Record::kLast);
  CHECK(seen.records[3].order == 17);
  CHECK(seen.records[3].batch == 16);
  CHECK(seen.records[5].is_end());
  REQUIRE(seen.records[14].what == timeline::Record::What::run);
  const timeline::Record& run = seen.records[14];
  CHECK(file.name(timeline::NameKind::text, run.name) == "GLOO_ALLGATHER");
  CHECK(file.name(timeline::NameKind::text, run.backend) == "gloo");
  CHECK(file.name(timeline::NameKind::text, run.algorithm) == "allgather");
  CHECK(timeline::shape_of(file.name(timeline::NameKind::shape, seen.records[15].number)) == Shape{2, 3});
  CHECK(timeline::shape_of(file.name(timeline::NameKind::shape, seen.records[16].number)) ==
        Shape{1, 1, 1, 1, 1, 1, 1, 1, 5'000'000'000});
  CHECK(timeline::shape_of(file.name(timeline::NameKind::shape, seen.records[17].number)) == Shape{});
  CHECK(file.name(timeline::NameKind::error, seen.records[18].number) == "an error\nof two lines");
  CHECK(seen.records[18].bytes == static_cast<std::uint64_t>(Code::mismatch));
  CHECK(file.name(timeline::NameKind::span, seen.records[19].name) == "forward \xff");
  CHECK(seen.records[21].bytes == ~std::uint64_t{0});
  CHECK(seen.records[22].what == timeline::Record::What::cycle);
  CHECK(static_cast<std::int64_t>(seen.records[23].bytes) == -5);
}

void overwrite(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

TEST_CASE("a file that was cut anywhere is read up to its last whole block, and says what is missing") {
  test::TemporaryDirectory folder;
  const auto timeline = test::must_open(options_for(folder));
  record_all(*timeline);
  const std::string path = must_close(*timeline, folder);
  const std::string whole = test::read_file(path);
  const std::vector<timeline::Record> all = read(path).records;
  std::size_t least = 0;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    overwrite(path, std::string_view(whole).substr(0, size));
    const Seen seen = read(path);
    INFO("cut at byte " << size << ": " << seen.status.message());
    if (!seen.file) {
      REQUIRE(seen.records.empty());
      REQUIRE_THAT(seen.status.message(), Contains(path));
      continue;
    }
    REQUIRE(seen.status.is_ok());
    REQUIRE_FALSE(seen.file->missing().empty());
    REQUIRE_THAT(seen.file->missing(), Contains(path));
    REQUIRE(seen.records.size() >= least);
    REQUIRE(std::equal(seen.records.begin(), seen.records.end(), all.begin()));
    least = seen.records.size();
  }
  CHECK(least == all.size());
}

TEST_CASE("whatever is in a file, reading it ends, and an error names the file and the place") {
  test::TemporaryDirectory folder;
  const auto timeline = test::must_open(options_for(folder));
  record_all(*timeline);
  const std::string path = must_close(*timeline, folder);
  const std::string whole = test::read_file(path);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x41);
    overwrite(path, changed);
    const Seen seen = read(path);
    INFO("byte " << at);
    REQUIRE((!seen.status.is_ok() || !seen.file->missing().empty()));
    REQUIRE_THAT(seen.status.is_ok() ? seen.file->missing() : seen.status.message(), Contains(path));
  }
}

/// A file with changed content in a block, and a correct check.
class Forged {
 public:
  explicit Forged(std::string bytes) : bytes_(std::move(bytes)) { join_blocks(); }

  /// The position of the content of the first block of this kind.
  std::size_t find(timeline::BlockKind kind) const {
    std::size_t at = sizeof(timeline::FilePreface);
    while (head(at).kind != kind) at += sizeof(timeline::BlockHead) + head(at).bytes;
    return at + sizeof(timeline::BlockHead);
  }
  template <class T>
  void put(timeline::BlockKind kind, std::size_t offset, T value) {
    const std::size_t content = find(kind);
    std::memcpy(bytes_.data() + content + offset, &value, sizeof value);
    seal(content - sizeof(timeline::BlockHead));
  }
  void set_count(timeline::BlockKind kind, std::uint32_t count) {
    const std::size_t at = find(kind) - sizeof(timeline::BlockHead);
    std::memcpy(bytes_.data() + at + offsetof(timeline::BlockHead, count), &count, sizeof count);
    seal(at);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  /// Joins blocks of a kind: first all names, then all records. The writer
  /// writes whatever is there each time.
  void join_blocks() {
    std::map<timeline::BlockKind, std::pair<timeline::BlockHead, std::string>> blocks;
    for (std::size_t at = sizeof(timeline::FilePreface); at < bytes_.size();) {
      const timeline::BlockHead one = head(at);
      auto& [joined, content] =
          blocks.try_emplace(one.kind, timeline::BlockHead{.kind = one.kind}, "").first->second;
      joined.count += one.count;
      joined.bytes += one.bytes;
      content += std::string_view(bytes_).substr(at + sizeof one, one.bytes);
      at += sizeof one + one.bytes;
    }
    bytes_.resize(sizeof(timeline::FilePreface));
    using timeline::BlockKind;
    for (const BlockKind kind :
         {BlockKind::origin, BlockKind::epoch, BlockKind::names, BlockKind::records, BlockKind::end}) {
      if (!blocks.contains(kind)) continue;
      const auto& [joined, content] = blocks.at(kind);
      const std::size_t at = bytes_.size();
      bytes_.append(reinterpret_cast<const char*>(&joined), sizeof joined);
      bytes_ += content;
      seal(at);
    }
  }
  timeline::BlockHead head(std::size_t at) const {
    timeline::BlockHead head;
    std::memcpy(&head, bytes_.data() + at, sizeof head);
    return head;
  }
  void seal(std::size_t at) {
    timeline::BlockHead sealed = head(at);
    sealed.check =
        timeline::check_of(sealed, std::string_view(bytes_).substr(at + sizeof sealed, sealed.bytes));
    std::memcpy(bytes_.data() + at, &sealed, sizeof sealed);
  }
  std::string bytes_;
};

TEST_CASE("a record, name or origin that cannot be is refused, although its block is whole") {
  test::TemporaryDirectory folder;
  const auto timeline = test::must_open(options_for(folder));
  record_all(*timeline);
  const std::string path = must_close(*timeline, folder);
  const std::string whole = test::read_file(path);
  const auto told = [&](auto change) {
    Forged forged(whole);
    change(forged);
    overwrite(path, forged.bytes());
    const Seen seen = read(path);
    return seen.status.message();
  };
  const auto in_record = [&](std::size_t offset, auto value) {
    return told([&](Forged& file) { file.put(timeline::BlockKind::records, offset, value); });
  };
  CHECK_THAT(in_record(offsetof(timeline::Record, what), std::uint8_t{99}), Contains("unknown what 99"));
  CHECK_THAT(in_record(offsetof(timeline::Record, kind), std::uint8_t{200}), Contains("unknown kind 200"));
  CHECK_THAT(in_record(offsetof(timeline::Record, dtype), std::uint8_t{200}), Contains("unknown dtype 200"));
  CHECK_THAT(in_record(offsetof(timeline::Record, flags), std::uint8_t{64}), Contains("unknown flags 64"));
  CHECK_THAT(in_record(offsetof(timeline::Record, name), std::uint32_t{2}), Contains("unknown name 2"));
  CHECK_THAT(in_record(offsetof(timeline::Record, name), std::uint32_t{0}), Contains("of no tensor"));
  CHECK_THAT(in_record(offsetof(timeline::Record, thread), std::uint32_t{9}), Contains("unknown thread 9"));
  CHECK_THAT(in_record(offsetof(timeline::Record, backend), std::uint16_t{9}), Contains("unknown backend 9"));
  CHECK_THAT(in_record(offsetof(timeline::Record, algorithm), std::uint16_t{9}),
             Contains("unknown algorithm 9"));
  const std::size_t done = 15 * sizeof(timeline::Record);
  CHECK_THAT(in_record(done + offsetof(timeline::Record, number), std::uint32_t{0}),
             Contains("unknown shape 0"));
  CHECK_THAT(in_record(done + offsetof(timeline::Record, number), std::uint32_t{4}),
             Contains("unknown shape 4"));
  const std::size_t error = 18 * sizeof(timeline::Record);
  CHECK_THAT(in_record(error + offsetof(timeline::Record, number), std::uint32_t{2}),
             Contains("unknown error 2"));
  const std::size_t clock = 23 * sizeof(timeline::Record);
  CHECK_THAT(in_record(clock + offsetof(timeline::Record, number), std::uint32_t{5}),
             Contains("unknown rank 5"));
  CHECK_THAT(told([](Forged& file) { file.set_count(timeline::BlockKind::records, 0xffffffff); }),
             Contains("records in"));
  CHECK_THAT(told([](Forged& file) { file.set_count(timeline::BlockKind::names, 0xffffffff); }),
             Contains("damaged"));
  CHECK_THAT(told([](Forged& file) { file.set_count(timeline::BlockKind::names, 1); }),
             Contains("more than 1 names"));
  const auto in_name = [&](std::size_t offset, auto value) {
    return told([&](Forged& file) { file.put(timeline::BlockKind::names, offset, value); });
  };
  CHECK_THAT(in_name(offsetof(timeline::NameHead, kind), std::uint32_t{0}), Contains("unknown kind 0"));
  CHECK_THAT(in_name(offsetof(timeline::NameHead, number), std::uint32_t{2}), Contains("comes after 0"));
  CHECK_THAT(in_name(offsetof(timeline::NameHead, bytes), ~std::uint64_t{0}),
             Contains("longer than its block"));
  const auto in_origin = [&](std::size_t offset, auto value) {
    return told([&](Forged& file) { file.put(timeline::BlockKind::origin, offset, value); });
  };
  CHECK_THAT(in_origin(offsetof(timeline::OriginHead, rank), std::int32_t{-1}), Contains("rank -1"));
  CHECK_THAT(in_origin(offsetof(timeline::OriginHead, size), std::int32_t{0}), Contains("job of 0"));
  CHECK_THAT(in_origin(offsetof(timeline::OriginHead, host_bytes), ~std::uint32_t{0}),
             Contains("the names of its host are too long"));
}

TEST_CASE("a file of an elastic job names the members of its epoch, and one without them is refused") {
  test::TemporaryDirectory folder;
  timeline::Timeline::Options options = options_for(folder);
  options.origin.roster = timeline::EpochRoster{
      .members = {{1, "a"}, {2, "a"}, {-1, "b"}, {3, "b"}, {-1, "c"}}, .lost = {{0, "a", "was killed"}}};
  const auto timeline = test::must_open(options);
  timeline->leave({Code::peer_lost, "rank 0 was lost"});
  timeline->leave({});
  REQUIRE(timeline->close().is_ok());
  const std::string path = folder / "trace.epoch9.rank3";
  const std::string whole = test::read_file(path);
  const Seen seen = read(path);
  REQUIRE(seen.status.is_ok());
  CHECK(seen.file->origin().roster == options.origin.roster);
  CHECK(seen.file->origin().epoch == 9);
  REQUIRE(seen.records.size() == 2);
  CHECK(seen.records[0].what == timeline::Record::What::leave);
  CHECK(seen.file->name(timeline::NameKind::error, seen.records[0].number) == "rank 0 was lost");
  CHECK(static_cast<Code>(seen.records[0].bytes) == Code::peer_lost);
  CHECK(seen.records[1].number == 0);

  const auto told = [&](auto change) {
    Forged forged(whole);
    change(forged);
    overwrite(path, forged.bytes());
    return read(path).status.message();
  };
  CHECK_THAT(told([](Forged& file) { file.put(timeline::BlockKind::epoch, 0, 'x'); }),
             Contains("makes no sense"));
  CHECK_THAT(told([](Forged& file) {
               file.put(timeline::BlockKind::origin, offsetof(timeline::OriginHead, size), 6);
             }),
             Contains("its epoch has 6 ranks, but names 5"));
  CHECK_THAT(told([](Forged& file) {
               file.put(timeline::BlockKind::records, offsetof(timeline::Record, number), std::uint32_t{9});
             }),
             Contains("unknown error 9"));
  timeline::FilePreface other;
  std::memcpy(&other, whole.data(), sizeof other);
  CHECK(other.version == timeline::kElasticVersion);
  other.version = timeline::kRecordVersion;
  overwrite(path,
            std::string(reinterpret_cast<const char*>(&other), sizeof other) + whole.substr(sizeof other));
  CHECK_THAT(read(path).status.message(), Contains("it has a second header"));
  for (std::size_t size = 0; size < whole.size(); ++size) {  // cut anywhere
    overwrite(path, whole.substr(0, size));
    const Seen cut = read(path);
    CHECK((cut.status.is_ok() ? !cut.file->missing().empty()
                              : cut.status.message().find(path) != std::string::npos));
  }
}

TEST_CASE("what is no file of records is told by its name") {
  test::TemporaryDirectory folder;
  const std::string path = folder / "other";
  overwrite(path, "[\n{\"name\":\"process_name\"}\n]\n");
  CHECK_THAT(read(path).status.message(), Contains(path) && Contains("not a file of timeline records"));
  timeline::FilePreface preface;
  preface.version = 77;
  overwrite(path, {reinterpret_cast<const char*>(&preface), sizeof preface});
  CHECK_THAT(read(path).status.message(), Contains(path) && Contains("version 77"));
  CHECK_THAT(read(folder.path()).status.message(), Contains(folder.path()));
  CHECK_THAT(read(folder.path() + "/none").status.message(), Contains("No such file"));
}

TEST_CASE("a full queue of records loses some, counts them, and marks where") {
  test::TemporaryDirectory folder;
  constexpr std::uint64_t kRecords = 200'000;
  const auto timeline = test::must_open(options_for(folder, 64));
  const auto id = timeline->tensor("x");
  for (std::uint64_t i = 0; i < kRecords; ++i) test::rank_ready(*timeline, id, 0);
  const Seen seen = read(must_close(*timeline, folder));
  REQUIRE(seen.status.is_ok());
  REQUIRE(seen.file->end());
  CHECK(seen.file->end()->lost > 0);
  CHECK(seen.file->end()->records + seen.file->end()->lost == kRecords);
  std::uint64_t marked = 0, read = 0;
  for (const timeline::Record& record : seen.records) {
    if (record.what == timeline::Record::What::lost) {
      marked += record.bytes;
    } else {
      ++read;
    }
  }
  CHECK(read == seen.file->end()->records);
  CHECK(marked > 0);
  CHECK(marked <= seen.file->end()->lost);
}

TEST_CASE("spans have names of their own up to a limit, and share one beyond it") {
  test::TemporaryDirectory folder;
  constexpr auto kMost = static_cast<std::uint32_t>(timeline::most_of(timeline::NameKind::span));
  static_assert(kMost == 65'536);
  const auto timeline = test::must_open(options_for(folder, 1 << 20));
  for (std::uint32_t i = 0; i < kMost + 100; ++i) {
    timeline->begin_span(fmt::format("span {}", i));
    timeline->end_span();
  }
  const Seen seen = read(must_close(*timeline, folder));
  REQUIRE(seen.status.is_ok());
  REQUIRE(seen.file->count(timeline::NameKind::span) == kMost + 1);
  CHECK(seen.file->name(timeline::NameKind::span, kMost) == "span 65535");
  CHECK(seen.file->name(timeline::NameKind::span, kMost + 1) == "(all further spans)");
  CHECK(seen.records[2 * (kMost + 50)].name == kMost + 1);
  CHECK(seen.file->count(timeline::NameKind::tensor) == 0);
}

TEST_CASE("a full disk ends the records and is what close returns, and nobody waits for it") {
  test::TemporaryDirectory folder;
  const std::string link = folder / "trace.rank3";
  REQUIRE(::symlink("/dev/full", link.c_str()) == 0);
  timeline::Timeline::Options options = options_for(folder);
  std::atomic<int> told{0};
  options.on_error = [&](const Status&) { ++told; };
  const auto timeline = test::must_open(options);
  for (int i = 0; i < 100'000; ++i) test::rank_ready(*timeline, timeline->tensor("x"), i);
  const Status status = timeline->close();
  CHECK_THAT(status.message(), Contains(link) && Contains("No space left on device"));
  CHECK(told == 1);
}

TEST_CASE("records that a full disk has cut anywhere are whole up to there, and say why they end") {
  test::TemporaryDirectory folder;
  const timeline::Timeline::Options options = options_for(folder);
  const std::string path = folder / "trace.rank3";
  for (rlim_t limit = 400; limit < 20'000; limit += test::kSanitized ? 997 : 97) {
    const int status = test::status_in_child([&] {
      const struct rlimit limits = {limit, limit};
      ::setrlimit(RLIMIT_FSIZE, &limits);
      const auto timeline = test::must_open(options);
      for (int i = 0; i < 2000; ++i) {
        timeline->mark_step(static_cast<std::uint64_t>(i));
        if (i % 50 == 0) std::this_thread::sleep_for(1ms);
      }
      return timeline->close().is_ok() ? 1 : 0;
    });
    const Seen seen = read(path);
    CAPTURE(limit, seen.status.message());
    CHECK(status == 0);
    REQUIRE(seen.status.is_ok());
    CHECK(seen.file->missing() == "'" + path + "' could not be written completely: File too large");
    CHECK(timeline::RecordFile::is_closed(path));
    CHECK(std::filesystem::file_size(path) <= limit);
    for (std::size_t i = 0; i < seen.records.size(); ++i) REQUIRE(seen.records[i].bytes == i);
  }
}

TEST_CASE("a disk on which there is no room behind the last block ends the records in its place") {
  test::TemporaryDirectory folder;
  const timeline::Timeline::Options options = options_for(folder);
  const std::string path = folder / "trace.rank3";
  for (const rlim_t room : {0, 8, 40}) {
    const int status = test::status_in_child([&] {
      const auto timeline = test::must_open(options);
      for (std::uint64_t i = 0; i < 10; ++i) timeline->mark_step(i);
      std::size_t there = 0;
      while (there < 10) {
        std::this_thread::sleep_for(1ms);
        const Seen seen = read(path);
        there = seen.status.is_ok() ? seen.records.size() : 0;
      }
      const rlim_t limit = std::filesystem::file_size(path) + room;
      const struct rlimit limits = {limit, limit};
      ::setrlimit(RLIMIT_FSIZE, &limits);
      for (std::uint64_t i = 10; i < 20; ++i) timeline->mark_step(i);
      return timeline->close().is_ok() ? 1 : 0;
    });
    const Seen seen = read(path);
    CAPTURE(room, seen.status.message());
    CHECK(status == 0);
    REQUIRE(seen.status.is_ok());
    CHECK(seen.file->missing() == "'" + path + "' could not be written completely: File too large");
    for (std::size_t i = 0; i < seen.records.size(); ++i) REQUIRE(seen.records[i].bytes == i);
  }
}

TEST_CASE("records after kill -9 are there up to the last flush") {
  test::TemporaryDirectory folder;
  const std::string path = folder / "trace.rank3";
  test::ChildProcess child([&]() -> int {
    const auto timeline = test::must_open(options_for(folder, 1 << 16));
    const auto id = timeline->tensor("x");
    ::alarm(240);  // ends even if the test does not
    for (;;) test::rank_ready(*timeline, id, 0);
  });
  const auto deadline = Clock::now() + 90s;
  std::error_code none_yet;
  for (std::uintmax_t size = 0;
       (size < 2'000'000 || size == static_cast<std::uintmax_t>(-1)) && Clock::now() < deadline;) {
    std::this_thread::yield();
    size = std::filesystem::file_size(path, none_yet);
  }
  child.kill();
  child.wait();
  const Seen seen = read(path);
  REQUIRE(seen.status.is_ok());
  CHECK_FALSE(seen.file->missing().empty());
  CHECK(seen.records.size() > 20'000);
}

TEST_CASE("a timeline that is to end lets the batches go on that were ordered before, and no others") {
  test::TemporaryDirectory folder;
  const auto timeline = test::must_open(options_for(folder));
  const auto id = timeline->tensor("x");
  timeline->batch_ordered();
  timeline->end();
  CHECK_FALSE(timeline->has_ended());
  timeline->done({.order = 1, .batch = 1, .name = id}, Shape{1});
  timeline->batch_ended();
  const Seen seen = read(must_close(*timeline, folder));
  CHECK(timeline->has_ended());
  CHECK(seen.records.size() == 1);
  CHECK(seen.file->missing().empty());
}

TEST_CASE("docs/reference/timeline-records.md has the form of a record as the code has it") {
  const std::string page = test::read_file(SOURCE_ROOT "/docs/reference/timeline-records.md");
  INFO("the tables are:\n" << timeline::records_as_markdown());
  std::istringstream lines(timeline::records_as_markdown());
  for (std::string line; std::getline(lines, line);) CHECK_THAT(page, Contains(line + "\n"));
  CHECK_THAT(page, Contains(timeline::records_as_markdown().substr(
                       0, timeline::records_as_markdown().find("\n\n"))));
}

}  // namespace
}  // namespace dabke::test
