#include "benchmarks/perf/report/results.h"

#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "benchmarks/perf/competitors/call.h"
#include "benchmarks/perf/competitors/competitor.h"
#include "benchmarks/perf/report/targets.h"
#include "dabke/dabke.h"

namespace dabke::perf {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Row, job, mode, path, competitor, detail, collective, dtype, op, in_place,
                                   memory, ranks, cores, bytes, count, iterations, wrong, times_us, more)

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double paired_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (b[i] > 0) ratios.push_back(a[i] / b[i]);
  return median(std::move(ratios));
}

double algorithm_bandwidth(const Row& row) {
  const double us = median(row.times_us);
  return us > 0 ? static_cast<double>(row.bytes) / us * 1e-3 : 0;
}

double bus_bandwidth(const Row& row) {
  for (const CollectiveKind kind :
       {CollectiveKind::allreduce, CollectiveKind::allgather, CollectiveKind::broadcast,
        CollectiveKind::reducescatter, CollectiveKind::alltoall})
    if (name_of(kind) == row.collective) return algorithm_bandwidth(row) * bus_factor(kind, row.ranks);
  return 0;
}

const Row* reference_of(const Row& row, const std::vector<Row>& rows) {
  const auto found = std::ranges::find_if(rows, [&](const Row& other) {
    return other.competitor == kReference && other.job == row.job && other.mode == row.mode &&
           other.bytes == row.bytes && other.count == row.count && other.in_place == row.in_place;
  });
  return found == rows.end() ? nullptr : &*found;
}

nlohmann::json to_json(const std::vector<Row>& rows) { return rows; }

std::vector<Row> rows_from_json(const nlohmann::json& json) { return json.get<std::vector<Row>>(); }

nlohmann::json report(const std::vector<Row>& rows, const std::vector<std::string>& command) {
  utsname system{};
  ::uname(&system);
  nlohmann::json all;
  all["program"] = {{"name", "dabke-perf"}, {"version", dabke_version()}, {"command", command}};
  all["machine"] = {{"cpu", cpu_model()}, {"cores", core_count()}, {"kernel", system.release}};
  all["time"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::now()));
  all["results"] = nlohmann::json::array();
  for (const Row& row : rows) {
    nlohmann::json one = row;
    one["time_us"] = median(row.times_us);
    one["algbw_gb_s"] = algorithm_bandwidth(row);
    one["busbw_gb_s"] = bus_bandwidth(row);
    if (const Row* const shm = reference_of(row, rows))
      one["ratio_to_shm"] = paired_ratio(row.times_us, shm->times_us);
    if (const auto target = target_of(row, rows))
      one["target"] = {{"name", target->name},
                       {"value", target->value},
                       {"limit", target->limit},
                       {"is_met", target->is_met()}};
    all["results"].push_back(std::move(one));
  }
  return all;
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.find(':') + 2, line.size()));
  }
  return "unknown";
}

int core_count() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace dabke::perf
