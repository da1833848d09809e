// The trace of an elastic job whose records the test writes, so that every time is known.
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "runtime/timeline/joining/merged_rows.h"
#include "runtime/timeline/merge/merge.h"
#include "tests/runtime/timeline/elastic_job.h"
#include "tests/trace_form.h"

namespace dabke::test {
namespace {

using Catch::Contains;

constexpr int kJob = timeline::rows::kJobProcess;
std::vector<Json> slices_of(const Json& trace, int pid, const std::string& prefix) {
  std::vector<Json> found;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["pid"] == pid && event["name"].get<std::string>().starts_with(prefix))
      found.push_back(event);
  }
  return found;
}

}  // namespace

TEST_CASE("the files of every epoch are joined, also that of a rank which was killed") {
  const TemporaryDirectory place;
  const std::string base = place / "trace.json";
  write_elastic_job(base);
  const auto files = timeline::JobFiles::find(base);
  REQUIRE(files.is_ok());
  REQUIRE(files->ranks().size() == 8);
  CHECK(files->ranks()[0].path == base + ".rank0");
  CHECK(files->ranks()[3].path == base + ".epoch2.rank0");
  CHECK(extent_text(*files) == "8 of 8 ranks of 3 epochs");
  REQUIRE(files->notes().size() == 1);
  CHECK_THAT(files->notes()[0], Contains("rank 0 in epoch 1: '" + base + ".rank0' was cut off"));
  CHECK(timeline::base_of_records(base + ".epoch2.rank1") == base);

  std::filesystem::remove(base + ".epoch3.rank1");
  std::filesystem::remove(base + ".epoch2.rank0");
  std::filesystem::remove(base + ".epoch2.rank1");
  const auto fewer = timeline::JobFiles::find(base);
  REQUIRE(fewer->notes().size() == 3);
  CHECK(fewer->notes()[1] == "epoch 3: of 3 ranks, no records exist of: 1");
  CHECK(fewer->notes()[2] == "no records exist of these epochs: 2");

  const auto named = timeline::JobFiles::open({base + ".epoch3.rank0", base + ".rank0"});
  REQUIRE(named.is_ok());
  CHECK(named->epochs().size() == 2);
  const auto twice = timeline::JobFiles::open({base + ".epoch3.rank0", base + ".epoch3.rank0"});
  CHECK_THAT(twice.status().message(), Contains("both belong to rank 0 in epoch 3"));
}

TEST_CASE("files of an elastic job and of another job at the same name are told apart") {
  const TemporaryDirectory place;
  const std::string base = place / "trace.json";
  write_elastic_job(base);
  { Writer(base, 0, 1, std::byte{9}); }
  const auto files = timeline::JobFiles::find(base, JobId{std::byte{9}});
  REQUIRE(files.is_ok());
  CHECK(files->ranks().size() == 1);
  CHECK_FALSE(files->is_elastic());
  REQUIRE(files->notes().size() == 7);
  CHECK_THAT(files->notes().back(), Contains("trace.json.epoch3.rank2' is left out: it belongs to job 07"));

  // A timeline of another job has a name like an epoch's.
  { Writer(place / "other", 0, 1); }
  { Writer(place / "other.epoch2", 0, 1); }
  CHECK(timeline::record_files(place / "other") == std::vector<std::string>{place / "other.rank0"});
  CHECK(timeline::base_of_records(place / "other.epoch2.rank0") == place / "other.epoch2");
}

TEST_CASE("a rank number keeps its process and a tensor its row, and events bear their epoch") {
  const TemporaryDirectory place;
  const std::string base = place / "trace.json";
  write_elastic_job(base);
  const Json trace = merged(base, base);
  CHECK(form_faults(trace) == std::vector<std::string>());
  std::map<int, std::string> processes, hosts;
  std::map<std::string, std::set<int>> rows;  // of rank 0, by name
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
    if (event["name"] == "process_labels") hosts[event["pid"]] = event["args"]["labels"];
    if (event["name"] == "thread_name" && event["pid"] == 0)
      rows[event["args"]["name"]].insert(event["tid"].get<int>());
  }
  CHECK(processes == std::map<int, std::string>{{0, "rank 0"}, {1, "rank 1"}, {2, "rank 2"}, {kJob, "job"}});
  CHECK(hosts == std::map<int, std::string>{{0, "a"}, {1, "a, b"}, {2, "b, c"}});
  CHECK(rows.at("x").size() == 1);
  CHECK(rows.at("lane").size() == 1);
  CHECK(rows.at("x") != rows.at("only of rank 0"));

  std::map<std::pair<int, std::string>, std::vector<std::uint64_t>> epochs;  // by rank and name
  for (const int rank : {0, 1, 2}) {
    for (const std::string name : {"ALLREDUCE", "step "}) {
      for (const Json& event : slices_of(trace, rank, name)) {
        const bool is_of_lane = name == "step " || event["args"].contains("first");
        if (is_of_lane) epochs[{rank, name}].push_back(event["args"]["epoch"]);
      }
    }
  }
  const std::vector<std::uint64_t> all{1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
  CHECK(epochs[{0, "ALLREDUCE"}] == all);
  CHECK(epochs[{2, "ALLREDUCE"}] == std::vector<std::uint64_t>{1, 1, 1, 1, 1, 3, 3, 3, 3});
  // The first mark of an epoch ends no step: the change lies before it.
  CHECK(epochs[{0, "step "}] == std::vector<std::uint64_t>{1, 1, 1, 1, 2, 2, 2, 3, 3, 3});
  CHECK(trace["otherData"]["epoch"] == 3);
  CHECK(trace["otherData"]["clocks"].size() == 8);
  CHECK(trace["otherData"]["clocks"][3]["epoch"] == 2);
}

TEST_CASE("a band of the whole job lasts from the loss to the next work, with who was lost and who joined") {
  const TemporaryDirectory place;
  const std::string base = place / "trace.json";
  write_elastic_job(base);
  const Json trace = merged(base, base);
  const auto bands = slices_of(trace, kJob, "epoch ");
  REQUIRE(bands.size() == 2);
  CHECK(bands[0]["name"] == "epoch 2: " + kLossText);
  CHECK(bands[0]["args"] == Json{{"epoch", 2}, {"change", kLossText}});
  CHECK(bands[0]["ts"] == 1001.0);
  CHECK(bands[0]["dur"] == 4020.0 - 1001.0);
  CHECK(bands[1]["name"] == "epoch 3: rank 2 (host c) joins; 2 of 2 ranks go on");
  CHECK(bands[1]["ts"] == 4500.0);
  CHECK(bands[1]["dur"] == 520.0);
}

}  // namespace dabke::test
