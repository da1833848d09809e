// The records of real processes, each in a file of its own: read back, and compared with each other.
#include <catch2/catch.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runtime/timeline/joining/record_file.h"
#include "tests/facts.h"
#include "tests/multiproc/negotiation_jobs.h"
#include "tests/patience.h"

namespace dabke::test {
namespace {

using What = timeline::Record::What;

struct RankRecords {
  timeline::RecordFile file;
  std::vector<timeline::Record> records;

  std::vector<timeline::Record> of(What what) const {
    std::vector<timeline::Record> found;
    for (const timeline::Record& record : records) {
      if (record.what == what) found.push_back(record);
    }
    return found;
  }
  /// The name and bytes of each order.
  std::map<std::uint64_t, std::string> orders() const {
    std::map<std::uint64_t, std::string> names;
    for (const timeline::Record& record : of(What::order))
      names[record.order] =
          fmt::format("{} {}", file.name(timeline::NameKind::tensor, record.name), record.bytes);
    return names;
  }
};

RankRecords read_rank(const std::string& path, int rank) {
  auto file = timeline::RecordFile::open(fmt::format("{}.rank{}", path, rank));
  INFO(file.status().message());
  REQUIRE(file.is_ok());
  RankRecords read{file.take(), {}};
  std::vector<timeline::Record> block;
  for (auto more = read.file.next(block); more.is_ok() && *more; more = read.file.next(block))
    read.records.insert(read.records.end(), block.begin(), block.end());
  CHECK(read.file.missing() == "");
  return read;
}

/// The numbers of the rank's orders, in the sequence in which the rank got them.
std::vector<std::uint64_t> order_numbers(const RankRecords& rank) {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, name] : rank.orders()) numbers.push_back(number);
  return numbers;
}

}  // namespace

TEST_CASE("each process records its own part of a job, the same orders and steps as the others") {
  const TemporaryDirectory folder;
  const std::string path = folder.path() + "/trace.json";
  JobRun run({"tcp", {"two hosts", 4, 0, 2}, {CPP_WORKER, "recorded"}, {"DABKE_TIMELINE=" + path}});
  const Finished finished = run.finish();
  CAPTURE(finished.exit_code, finished.out, finished.error);
  REQUIRE(finished.exit_code == 0);
  std::vector<RankRecords> ranks;
  for (int rank = 0; rank < 4; ++rank) ranks.push_back(read_rank(path, rank));
  std::set<std::string> hosts;
  for (const RankRecords& rank : ranks) {
    CAPTURE(rank.file.origin().rank);
    CHECK(rank.file.origin().job_id == ranks[0].file.origin().job_id);
    CHECK(rank.orders() == ranks[0].orders());
    CHECK(rank.of(What::step).size() == 200);
    CHECK(rank.of(What::span).size() == 2 * 200);
    CHECK(rank.of(What::submit).size() > 200);
    CHECK(rank.of(What::done).size() == rank.orders().size());
    hosts.insert(rank.file.origin().host);
    CHECK(rank.of(What::clock).empty());  // these hosts are one machine, whose links carry no beats
  }
  CHECK(hosts.size() == 2);
}

TEST_CASE(
    "a limit of size ends the timeline of all processes at the same order, and the merged trace says so") {
  constexpr std::uint64_t kLimit = kSanitized ? 400'000 : 1'000'000;
  const int tensors = GENERATE(1, 100);  // the tensors of a step, all in flight at once
  const TemporaryDirectory folder;
  const std::string path = folder.path() + "/trace.json";
  JobRun run({"shm",
              {"", 4},
              {CPP_WORKER, "recorded-up-to-a-limit"},
              {"DABKE_TIMELINE=" + path, fmt::format("DABKE_TIMELINE_MAX_BYTES={}", kLimit),
               fmt::format("DABKE_TEST_TENSORS={}", tensors)}});
  const Finished finished = run.finish();
  CAPTURE(tensors, finished.exit_code, finished.out, finished.error);
  REQUIRE(finished.exit_code == 0);
  CHECK_THAT(finished.error,
             Catch::Contains(fmt::format("rank 0 nears its limit, DABKE_TIMELINE_MAX_BYTES={}", kLimit)));
  const std::string said =
      fmt::format("rank 0: its file came near the limit of {} bytes (DABKE_TIMELINE_MAX_BYTES)", kLimit);
  CHECK_THAT(finished.error, Catch::Contains(said));  // reported by dabkerun, which merges
  std::vector<RankRecords> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    const auto size = std::filesystem::file_size(fmt::format("{}.rank{}", path, rank));
    CHECK(size <= kLimit);
    CHECK((rank != 0 || size > kLimit * 7 / 10));  // rank 0 records most
    ranks.push_back(read_rank(path, rank));
    CHECK(ranks.back().file.end()->limit == (rank == 0 ? kLimit : 0));
    CHECK(ranks.back().file.end()->lost == 0);
    CHECK(ranks.back().orders() == ranks[0].orders());
  }
  CHECK(ranks[0].orders().size() > 300);
  std::ifstream merged(path);
  const auto trace = nlohmann::json::parse(merged);
  REQUIRE(trace["otherData"]["missing"].size() == 1);
  CHECK_THAT(trace["otherData"]["missing"][0].get<std::string>(), Catch::Contains(said));
  std::vector<std::size_t> done(4), marked(4);
  for (const auto& event : trace["traceEvents"]) {
    const auto rank = event["pid"].get<std::size_t>();
    if (event["name"] == "STEP") CHECK(event["args"]["step"] == marked.at(rank)++);
    if (event["name"] != "ALLREDUCE") continue;  // a submitted operation may still wait for an order
    CHECK_FALSE(event["args"].contains("unfinished"));
    if (event["args"].contains("shape")) ++done.at(rank);
  }
  CHECK(done == std::vector<std::size_t>(4, done[0]));
  // A rank that is slow to mark the last step finds that all ranks have stopped after its tensors.
  const auto [least, most] = std::ranges::minmax(marked);
  CHECK(most <= least + 1);
  CHECK(least > 0);
}

TEST_CASE("processes start and stop timelines at the same order, whoever of them calls") {
  const TemporaryDirectory folder;
  JobRun run({"shm",
              {"", 4},
              {CPP_WORKER, "starts-and-stops"},
              {"DABKE_TIMELINE=DYNAMIC", "DABKE_TEST_FOLDER=" + folder.path()}});
  const Finished finished = run.finish();
  CAPTURE(finished.exit_code, finished.out, finished.error);
  REQUIRE(finished.exit_code == 0);
  for (const auto& [name, steps] : {std::pair{"/one", 100}, {"/all", 50}}) {
    const std::string path = folder.path() + name;
    const auto expected = order_numbers(read_rank(path, 0));
    CAPTURE(name, expected.size());
    // Between the calls lie `steps` steps of two tensors. Some ranks begin the steps of the calls themselves
    // earlier.
    CHECK(expected.size() >= 2 * static_cast<std::size_t>(steps) - 4);
    CHECK(expected.size() <= 2 * static_cast<std::size_t>(steps) + 8);
    for (int rank = 0; rank < 4; ++rank) {
      const RankRecords records = read_rank(path, rank);
      CAPTURE(rank);
      CHECK(order_numbers(records) == expected);
      CHECK(records.of(What::done).size() == expected.size());
    }
    CHECK(std::filesystem::exists(path));  // rank 0 has merged them
  }
}

}  // namespace dabke::test
