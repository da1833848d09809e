// What real processes record of a job, each in a file of its own: read back, and held against each other.
#include <catch2/catch.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "runtime/timeline/record_file.h"
#include "tests/facts.h"
#include "tests/multiproc/negotiation_jobs.h"

namespace dabke {
namespace {

using What = Record::What;

struct RankRecords {
  RecordFile file;
  std::vector<Record> records;

  std::vector<Record> of(What what) const {
    std::vector<Record> found;
    for (const Record& record : records) {
      if (record.what == what) found.push_back(record);
    }
    return found;
  }
  /// Each order's name and bytes.
  std::map<std::uint64_t, std::string> orders() const {
    std::map<std::uint64_t, std::string> names;
    for (const Record& record : of(What::order))
      names[record.order] = fmt::format("{} {}", file.name(NameKind::tensor, record.name), record.bytes);
    return names;
  }
};

RankRecords read_rank(const std::string& path, int rank) {
  auto file = RecordFile::open(fmt::format("{}.rank{}", path, rank));
  INFO(file.status().message());
  REQUIRE(file.is_ok());
  RankRecords read{file.take(), {}};
  std::vector<Record> block;
  for (auto more = read.file.next(block); more.is_ok() && *more; more = read.file.next(block))
    read.records.insert(read.records.end(), block.begin(), block.end());
  CHECK(read.file.missing() == "");
  return read;
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

}  // namespace dabke
