// The records that the ranks write of a job, joined.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>
#include <tuple>

#include <stdlib.h>

#include <fmt/format.h>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "runtime/timeline/joining/record_file.h"
#include "tests/in_process/job.h"
#include "tests/patience.h"

namespace dabke::test {
namespace {

using What = timeline::Record::What;

class Folder {
 public:
  Folder() {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_ = "/tmp/dabke_records_XXXXXX";
};

/// The whole file of one rank.
struct RankRecords {
  timeline::RecordFile file;
  std::vector<timeline::Record> records;

  std::vector<timeline::Record> of(What what) const {
    std::vector<timeline::Record> found;
    std::ranges::copy_if(records, std::back_inserter(found),
                         [&](const timeline::Record& one) { return one.what == what; });
    return found;
  }
  std::string name(const timeline::Record& record) const {
    return std::string(file.name(timeline::NameKind::tensor, record.name));
  }
  std::string text(std::uint16_t number) const {
    return number == 0 ? "" : std::string(file.name(timeline::NameKind::text, number));
  }
  std::set<std::uint64_t> orders() const {
    std::set<std::uint64_t> numbers;
    for (const timeline::Record& record : of(What::order)) numbers.insert(record.order);
    return numbers;
  }
};

RankRecords read_rank(const std::string& path, int rank) {
  RankRecords read{must(timeline::RecordFile::open(fmt::format("{}.rank{}", path, rank))), {}};
  std::vector<timeline::Record> block;
  while (must(read.file.next(block))) read.records.insert(read.records.end(), block.begin(), block.end());
  if (!read.file.missing().empty()) throw std::runtime_error(read.file.missing());
  return read;
}

std::vector<RankRecords> read_ranks(const std::string& path, int ranks) {
  std::vector<RankRecords> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(read_rank(path, rank));
  return all;
}

Config records_config(const std::string& timeline = "DYNAMIC") {
  Config config = quiet_config();
  config.timeline = timeline;
  config.timeline_format = TimelineFormat::records;
  return config;
}

/// The facts of a batch that all its ranks must agree on: set, collective, dtype, bytes, the tensors' orders,
/// names and bytes, the backends, and the runs.
using Tensor = std::tuple<std::uint64_t, std::string, std::uint64_t>;
using BatchFacts = std::tuple<ProcessSetId, CollectiveKind, DType, std::uint64_t, std::vector<Tensor>,
                              std::set<std::string>, std::vector<std::string>>;
using BatchKey = std::pair<std::uint64_t, std::uint32_t>;

std::string text_of(const BatchFacts& batch) {
  const auto& [set, kind, dtype, bytes, tensors, backends, runs] = batch;
  std::string text = fmt::format("set {}: {} of {}, {} bytes, by {}; runs {}", set, name_of(kind),
                                 name_of(dtype), bytes, fmt::join(backends, ","), fmt::join(runs, ","));
  for (const auto& [order, name, size] : tensors) text += fmt::format("; {} '{}' {}", order, name, size);
  return text;
}

std::map<BatchKey, BatchFacts> batches_of(const RankRecords& rank) {
  std::map<BatchKey, BatchFacts> batches;
  std::map<std::pair<std::uint64_t, std::uint32_t>, BatchKey> of_tensor;  // by order and name
  for (const timeline::Record& record : rank.records) {
    if (record.what == What::order) {
      const BatchKey key{record.batch, record.number};
      auto& [set, kind, dtype, bytes, tensors, backends, runs] = batches[key];
      std::tie(set, kind, dtype) = std::tie(record.process_set, record.kind, record.dtype);
      bytes += record.bytes;
      tensors.emplace_back(record.order, rank.name(record), record.bytes);
      of_tensor[{record.order, record.name}] = key;
    } else if (record.what == What::run && record.is_end()) {
      std::get<6>(batches[{record.batch, record.number}])
          .push_back(rank.text(static_cast<std::uint16_t>(record.name)) + " by " + rank.text(record.backend) +
                     " " + rank.text(record.algorithm));
    } else if (record.what == What::done) {
      std::get<5>(batches[of_tensor.at({record.order, record.name})]).insert(rank.text(record.backend));
    }
  }
  return batches;
}

/// Returns what is wrong in the order of times of one rank's tensors; empty if nothing is.
std::string disorder_in(const RankRecords& rank) {
  struct Life {
    std::int64_t submit = -1, order = -1, run = -1;
  };
  std::map<std::string, Life> lives;
  std::map<BatchKey, std::vector<std::string>> members;
  const auto sorted = [&] {
    auto records = rank.records;
    std::ranges::stable_sort(records, {}, &timeline::Record::time_ns);
    return records;
  }();
  for (const timeline::Record& record : sorted) {
    if (record.what == What::submit && moves_data(record.kind)) lives[rank.name(record)] = {record.time_ns};
    if (record.what == What::order) {
      Life& life = lives[rank.name(record)];
      if (life.submit < 0 || life.order >= 0) return rank.name(record) + " is ordered without a submit";
      life.order = record.time_ns;
      members[{record.batch, record.number}].push_back(rank.name(record));
    }
    if (record.what == What::run && record.is_end()) {
      for (const std::string& name : members[{record.batch, record.number}]) lives[name].run = record.time_ns;
    }
    if (record.what == What::done) {
      const Life life = lives[rank.name(record)];
      if (life.order < 0) return rank.name(record) + " is done without an order";
      if (life.run < life.order) return rank.name(record) + " is done without a run";
      if (life.submit > life.order || life.run > record.time_ns)
        return rank.name(record) + " goes back in time";
      lives.erase(rank.name(record));
    }
  }
  return lives.empty() ? "" : lives.begin()->first + " does not end";
}

}  // namespace

TEST_CASE("the records of four ranks tell the same of every batch, and who was ready when") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const Folder folder;
  const std::string path = folder / "trace";
  constexpr int kSteps = dabke::test::kSanitized ? 5 : 20;
  run_on_ranks(backend, 4, records_config(path), [&](Rank& self) {
    const auto half = self.add_process_set({1, 3});
    for (int step = 0; step < kSteps; ++step) {
      std::vector<std::vector<float>> tensors(5, std::vector<float>(100));
      std::vector<Pending> pending;
      for (std::size_t i = 0; i < tensors.size(); ++i)
        pending.push_back(self.allreduce_async(tensors[i], {.name = fmt::format("layer.{}", i)}));
      std::vector<std::int64_t> rows(static_cast<std::size_t>(self.rank() + 1));
      pending.push_back(self.allgather_async(rows, {.name = "rows"}));
      std::vector<float> large(200'000), more(10);
      pending.push_back(self.start(CollectiveKind::allreduce,
                                   {{view_of(large), {}, "group.large"}, {view_of(more), {}, "group.more"}}));
      std::vector<double> some(7);
      if (self.rank() % 2 == 1)
        pending.push_back(self.allreduce_async(some, {.name = "of two", .set = half}));
      for (const Pending& one : pending) must(one.wait());
      self.runtime().timeline().mark_step(static_cast<std::uint64_t>(step));
    }
  });
  const auto ranks = read_ranks(path, 4);
  const auto root = batches_of(ranks[0]), second = batches_of(ranks[1]);
  CHECK(ranks[0].orders().size() == 7 * kSteps);
  for (const RankRecords& rank : ranks) {
    const auto& origin = rank.file.origin();
    CAPTURE(origin.rank);
    CHECK(origin.job_id == ranks[0].file.origin().job_id);
    CHECK(origin.size == 4);
    CHECK(rank.file.end()->lost == 0);
    CHECK(disorder_in(rank) == "");
    CHECK(rank.of(What::step).size() == kSteps);
    const auto batches = batches_of(rank);
    for (const auto& [key, batch] : batches) {
      CAPTURE(key.first, key.second);
      const auto& like = std::get<0>(batch) == 0 ? root : second;
      REQUIRE(like.contains(key));
      auto expected = like.at(key);
      if (std::get<1>(batch) == CollectiveKind::allgather) {  // each rank has its own rows
        std::get<3>(expected) = std::get<3>(batch);
        std::get<2>(std::get<4>(expected).front()) = std::get<2>(std::get<4>(batch).front());
      }
      // With few bytes, only one rank of each host sends between hosts.
      if (std::get<5>(batch).contains("hierarchical")) std::get<6>(expected) = std::get<6>(batch);
      CHECK(text_of(batch) == text_of(expected));
      CHECK(std::get<5>(batch).size() == 1);
    }
    CHECK(batches.size() == root.size() + (origin.rank % 2 == 1 ? kSteps : 0));
    CHECK(rank.of(What::ready).empty() == (origin.rank != 0));
  }
  std::map<std::string, std::multiset<std::uint32_t>> ready;
  for (const timeline::Record& record : ranks[0].of(What::ready)) {
    if (record.process_set == kWorldSet) ready[ranks[0].name(record)].insert(record.number);
  }
  // On two hosts, the last rank's readiness reaches rank 0 only through the first rank of its host.
  const std::uint32_t heard = backend.hosts == 1 ? 4 : 3;
  for (std::uint32_t rank = 0; rank < heard; ++rank) CHECK(ready["layer.0"].count(rank) == kSteps);
}

TEST_CASE("ranks that call at any time record between the same two orders") {
  const auto caller = GENERATE(-1, 0, 2);  // all ranks, or one
  const Folder folder;
  constexpr int kRanks = 4;
  run_on_ranks(every_backend().back(), kRanks, records_config(), [&](Rank& self) {
    // Each rank is ahead by another number of tensors, because no rank waits for its operations.
    const auto lead = static_cast<std::size_t>(10 * self.rank());
    std::vector<std::vector<float>> data(200, std::vector<float>(4));
    std::vector<Pending> pending;
    const auto submit_until = [&](std::size_t count) {
      while (pending.size() < count) {
        pending.push_back(
            self.allreduce_async(data[pending.size()], {.name = fmt::format("x{}", pending.size())}));
      }
    };
    const bool calls = caller < 0 || caller == self.rank();
    const auto start = [&](const std::string& name) {
      if (calls) must(self.runtime().start_timeline(folder / name, false));
    };
    const auto stop = [&] {
      if (calls) must(self.runtime().stop_timeline());
    };
    submit_until(20 + lead);
    start("a");
    submit_until(80 + lead);
    stop();
    submit_until(100 + lead);
    start("b");
    submit_until(150 + lead);
    stop();
    submit_until(200);
    for (const Pending& one : pending) must(one.wait());
  });
  for (const char* name : {"a", "b"}) {
    const auto ranks = read_ranks(folder / name, kRanks);
    for (const RankRecords& rank : ranks) {
      CHECK(rank.orders() == ranks[0].orders());
      CHECK(rank.of(What::done).size() == rank.orders().size());  // also those under way at the stop
    }
  }
}

TEST_CASE("each rank is told of its own errors alone, and the others go on") {
  const Folder folder;
  const auto seen = run_on_ranks(every_backend().back(), 3, records_config(), [&](Rank& self) {
    // so its file cannot be written
    if (self.rank() == 1) std::filesystem::create_directory(folder / "trace.rank1");
    std::vector<float> x(4);
    must(self.barrier());
    const Status started = self.runtime().start_timeline(folder / "trace", false);
    must(self.allreduce(x, {.name = "during"}));
    const Status other = self.runtime().start_timeline(folder / "other", false);
    must(self.barrier());
    const Status stopped = self.runtime().stop_timeline();
    must(self.runtime().stop_timeline());
    return std::tuple(started, other, stopped);
  });
  for (const int rank : {0, 2}) {
    const auto& [started, other, stopped] = seen[static_cast<std::size_t>(rank)];
    CHECK(started.is_ok());
    CHECK_THAT(other.message(), Catch::Contains("' is being written; stop it first"));
    CHECK(stopped.is_ok());
    CHECK(read_rank(folder / "trace", rank).orders().size() == 1);
  }
  const auto& [started, other, stopped] = seen[1];
  CHECK_THAT(started.message(), Catch::Contains("trace.rank1") && Catch::Contains("Is a directory"));
  CHECK(other.is_ok());  // that rank is not writing a timeline
}

TEST_CASE("a disk that is full on one rank is told by its stop, and the job goes on") {
  const Folder folder;
  std::filesystem::create_symlink("/dev/full", folder / "trace.rank1");
  const auto seen = run_on_ranks(every_backend().back(), 2, records_config(), [&](Rank& self) {
    std::vector<float> x(4);
    must(self.runtime().start_timeline(folder / "trace", false));
    for (int i = 0; i < 1000; ++i) must(self.allreduce(x, {.name = "x"}));
    const Status stopped = self.runtime().stop_timeline();
    must(self.allreduce(x, {.name = "after"}));
    return stopped;
  });
  CHECK(seen[0].is_ok());
  CHECK_THAT(seen[1].message(), Catch::Contains("trace.rank1") && Catch::Contains("No space left on device"));
}

TEST_CASE(
    "what is refused before it has an order is recorded as an error, so that the next submit is told from "
    "it") {
  const Folder folder;
  run_on_ranks(every_backend().back(), 2, records_config(folder / "trace"), [&](Rank& self) {
    std::vector<float> x(self.rank() == 0 ? 4 : 5), y(4);
    (void)must_fail(self.allreduce(x, {.name = "x"}));
    must(self.allreduce(y, {.name = "x"}));
  });
  for (const RankRecords& rank : read_ranks(folder / "trace", 2)) {
    std::vector<What> seen;
    for (const timeline::Record& record : rank.records) {
      const bool is_of_a_tensor = record.what == What::submit || record.what == What::order ||
                                  record.what == What::error || record.what == What::done;
      if (is_of_a_tensor && rank.name(record) == "x") seen.push_back(record.what);
    }
    CHECK(seen == std::vector<What>{What::submit, What::error, What::submit, What::order, What::done});
    const timeline::Record error = rank.of(What::error).at(0);
    CHECK(error.order == 0);
    CHECK_THAT(std::string(rank.file.name(timeline::NameKind::error, error.number)),
               Catch::StartsWith("Mismatched"));
  }
}

TEST_CASE("as a timeline ends rank 0 makes one trace of all ranks, where nobody else does") {
  const Folder folder;
  const auto ranks_in = [](const std::string& path) {
    std::set<int> ranks;
    std::ifstream file(path);
    const auto trace = nlohmann::json::parse(file);
    for (const auto& event : trace["traceEvents"]) ranks.insert(event["pid"].get<int>());
    return ranks;
  };
  const std::set<int> all{0, 1, 2};
  run_on_ranks(every_backend().back(), 3, records_config(folder / "whole"), [&](Rank& self) {
    std::vector<float> x(4);
    must(self.allreduce(x, {.name = "x"}));
  });
  CHECK(ranks_in(folder / "whole") == all);
  run_on_ranks(every_backend().back(), 3, records_config(), [&](Rank& self) {
    std::vector<float> x(4);
    if (self.rank() == 1) must(self.runtime().start_timeline(folder / "part", false));
    must(self.barrier());
    must(self.allreduce(x, {.name = "x"}));
    if (self.rank() == 1) must(self.runtime().stop_timeline());  // stops all ranks; rank 0 does not call it
  });
  CHECK(ranks_in(folder / "part") == all);
}

TEST_CASE("the steps that were asked for are whole in the records of every rank") {
  const Folder folder;
  const bool from_the_first = GENERATE(false, true);
  Config config = records_config(folder / "trace");
  config.timeline_steps = from_the_first ? "0:9" : "40:49";
  run_on_ranks(every_backend().back(), 3, config, [&](Rank& self) {
    std::vector<float> x(4);
    for (std::uint64_t step = 0; step < 100; ++step) {
      if (self.rank() == static_cast<int>(step % 3))
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      must(self.allreduce(x, {.name = "x"}));
      self.runtime().timeline().mark_step(step);
    }
  });
  const std::uint64_t first = from_the_first ? 0 : 39, last = first + (from_the_first ? 9 : 10);
  for (const RankRecords& rank : read_ranks(folder / "trace", 3)) {
    CAPTURE(rank.file.origin().rank);
    std::set<std::uint64_t> steps;
    for (const timeline::Record& record : rank.of(What::step)) steps.insert(record.bytes);
    for (std::uint64_t step = first; step <= last; ++step) CHECK(steps.contains(step));
    CHECK(steps.size() <= last - first + 4);
  }
}

TEST_CASE("steps that never come leave no file") {
  const Folder folder;
  Config config = records_config(folder / "trace");
  config.timeline_steps = "40:49";
  run_on_ranks(every_backend().back(), 2, config, [&](Rank& self) {
    std::vector<float> x(4);
    must(self.allreduce(x, {.name = "x"}));
    self.runtime().timeline().mark_step(1);
  });
  CHECK(std::filesystem::is_empty(folder / ""));
}

TEST_CASE(
    "a file that has become too large stops the timeline of all ranks at one order, and another may follow") {
  const Folder folder;
  const TimelineFormat format = GENERATE(TimelineFormat::records, TimelineFormat::horovod);
  CAPTURE(format);
  Config config = records_config(folder / "trace");
  config.timeline_format = format;
  config.timeline_max_bytes = 100'000;
  run_on_ranks(every_backend().back(), 2, config, [&](Rank& self) {
    std::vector<float> x(4);
    // The writer checks the size every 20 ms, if it gets CPU time. While the first timeline
    // is being written, no other can start.
    const bool starts = self.rank() == (format == TimelineFormat::horovod ? 0 : 1);
    const TimePoint deadline = deadline_after(60);
    for (std::vector<int> has_stopped = {0}; has_stopped[0] == 0;) {
      for (int i = 0; i < 100; ++i) must(self.allreduce(x, {.name = "x"}));
      const Status other = starts ? self.runtime().start_timeline(folder / "other", false) : Status();
      if (starts && Clock::now() > deadline) must(other);
      has_stopped[0] = starts && other.is_ok() ? 1 : 0;
      must(self.allreduce(has_stopped, {.name = "has stopped"}));
    }
  });
  if (format == TimelineFormat::horovod) {
    CHECK(std::filesystem::file_size(folder / "trace") <= 100'000);
    CHECK(std::filesystem::file_size(folder / "other") > 0);
    return;
  }
  const auto ranks = read_ranks(folder / "trace", 2);
  CHECK(ranks[0].orders() == ranks[1].orders());
  std::uintmax_t most = 0;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(ranks[rank].file.end()->lost == 0);
    most = std::max(most, std::filesystem::file_size(fmt::format("{}.rank{}", folder / "trace", rank)));
  }
  CHECK(most <= 100'000);
  // with so low a limit, a quarter stays free for records until all ranks have stopped
  CHECK(most >= 70'000);
  CHECK(read_ranks(folder / "other", 2)[1].orders().size() == 1);
}

TEST_CASE("a start after the job has ended is an error, and a stop ends the file") {
  const Folder folder;
  run_on_ranks(every_backend().back(), 2, records_config(), [&](Rank& self) {
    must(self.runtime().start_timeline(folder / "trace", false));
    std::vector<float> x(4);
    (void)self.allreduce(x, {.name = "x"});  // the other rank may abort before this operation has ended here
    self.runtime().abort("enough");
    while (self.allreduce(x, {.name = "y"}).is_ok()) {
    }
    must(self.runtime().stop_timeline());
    (void)must_fail(self.runtime().start_timeline(folder / "later", false));
  });
  for (int rank = 0; rank < 2; ++rank) CHECK(read_rank(folder / "trace", rank).orders().size() >= 1);
}

TEST_CASE(
    "spans are recorded by thread, within each other, and only those of the timeline that saw both ends") {
  const Folder folder;
  run_on_ranks(every_backend().back(), 1, records_config(), [&](Rank& self) {
    reports::ActiveTimeline& timeline = self.runtime().timeline();
    must(timeline.end_span());  // no timeline is running, so nothing is checked
    timeline.begin_span("before");
    must(self.runtime().start_timeline(folder / "trace", false));
    timeline.begin_span("outer");
    timeline.begin_span("inner");
    std::jthread([&] {
      (void)must_fail(timeline.end_span());
      timeline.begin_span("of another thread");
      must(timeline.end_span());
    }).join();
    must(timeline.end_span());
    must(timeline.end_span());
    must(timeline.end_span());  // ends "before"
    (void)must_fail(timeline.end_span());
    timeline.begin_span("until later");
    must(self.runtime().stop_timeline());
    must(timeline.end_span());
    timeline.mark_step(1);
  });
  const RankRecords rank = read_rank(folder / "trace", 0);
  std::map<std::uint32_t, std::vector<std::string>> spans;
  for (const timeline::Record& record : rank.of(What::span)) {
    spans[record.thread].push_back(
        record.is_end() ? "end" : std::string(rank.file.name(timeline::NameKind::span, record.name)));
  }
  REQUIRE(spans.size() == 2);
  std::set<std::vector<std::string>> seen;
  for (const auto& [thread, lines] : spans) seen.insert(lines);
  CHECK(seen == std::set<std::vector<std::string>>{{"outer", "inner", "end", "end", "until later"},
                                                   {"of another thread", "end"}});
  CHECK(rank.of(What::step).empty());
}

}  // namespace dabke::test
