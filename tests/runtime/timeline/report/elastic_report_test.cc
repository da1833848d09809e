// The report of an elastic job whose records the test writes, so that every time is known.
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "runtime/timeline/report/record_analysis.h"
#include "tests/runtime/timeline/elastic_job.h"

namespace dabke::test {
namespace {

using Catch::Contains;
using timeline::EpochRoster;

timeline::TraceReport report_of(const std::string& base) {
  const auto files = timeline::JobFiles::find(base);
  if (!files) throw std::runtime_error(files.status().message());
  auto report = timeline::report_of(*files, "job");
  if (!report) throw std::runtime_error(report.status().message());
  return *report;
}

}  // namespace

TEST_CASE("the report has the seconds of each change and of all, and no finding about its errors") {
  const TemporaryDirectory place;
  const std::string base = place / "trace.json";
  write_elastic_job(base);
  const timeline::TraceReport report = report_of(base);
  CHECK(report.ranks == std::vector<int>{0, 1, 2});
  REQUIRE(report.changes.size() == 2);
  CHECK(report.changes[0].epoch == 2);
  CHECK(report.changes[0].start_us == 1001);
  CHECK(report.changes[0].end_us == 4020);
  CHECK(report.changes[0].text == kLossText);
  CHECK(report.changes_us == 3019 + 520);
  CHECK(report.failed == 0);      // all errors are of the change
  CHECK(report.unfinished == 0);  // so is what the killed rank had submitted, and what epoch 2 did not order
  CHECK(report.steps.size() == 10);
  std::map<std::string, timeline::TraceReport::Finding> findings;
  for (const auto& finding : report.findings) findings[finding.id] = finding;
  REQUIRE(findings.contains("changes"));
  CHECK(findings["changes"].severity == timeline::TraceReport::Severity::high);
  CHECK(findings["changes"].title == "Changes of the ranks cost 3.5 ms");
  CHECK_THAT(findings["changes"].text, Contains("The longest took 3.0 ms: epoch 2: " + kLossText + "."));
  REQUIRE(findings["changes"].evidence.size() == 2);
  CHECK(findings["changes"].evidence[0].start_us == 1001);
  const Json json = Json::parse(json_of(report));
  CHECK(json["changes"].size() == 2);
  CHECK(json["changes_us"] == 3539.0);
}

TEST_CASE("an error of the program in an elastic job is a finding, and short changes are not") {
  const TemporaryDirectory place;
  const std::string base = place / "trace.json";
  for (const std::uint64_t epoch : {1, 2}) {
    for (const Rank rank : {0, 1}) {
      const auto begin = static_cast<std::int64_t>(epoch) * 1'000'000;
      Writer writer(base, rank, epoch, EpochRoster{.members = {{rank, "a"}, {rank, "a"}}});
      if (rank == 0) writer.fail(begin + 150, begin + 155, "bad");
      for (std::uint64_t i = 0; i < 9'999; ++i) {
        if (i % 100 == 0) train_step(writer, begin + static_cast<std::int64_t>(i) * 100, i + 1, i);
      }
      writer.leave(begin + 999'990);
    }
  }
  const timeline::TraceReport report = report_of(base);
  CHECK(report.changes.size() == 1);
  CHECK(report.failed == 2);
  std::set<std::string> ids;
  for (const auto& finding : report.findings) ids.insert(finding.id);
  CHECK(ids.contains("failed"));
  CHECK_FALSE(ids.contains("changes"));
}

}  // namespace dabke::test
