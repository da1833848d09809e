// The results, as they go from rank 0 of a job to dabke-perf and into the file of --json.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "benchmarks/perf/options.h"

namespace dabke::perf {

/// One competitor at one size.
struct Row {
  std::string job;         // "dabkerun", "mpich", "openmpi": the launcher of the ranks
  std::string mode;        // "sweep", "latency", "idle", "steps"
  std::string path;        // "raw" or "api": how Dabke was called
  std::string competitor;  // "dabke shm"
  std::string detail;      // the algorithm that was chosen, or empty
  std::string collective;
  std::string dtype;
  std::string op;
  bool in_place = false;
  std::string memory;  // "private" or "dabke"
  int ranks = 0;
  int cores = 0;
  std::int64_t bytes = 0;
  std::int64_t count = 0;                           // elements; in steps: tensors
  std::int64_t iterations = 0;                      // calls in a run
  std::int64_t wrong = -1;                          // wrong elements of all ranks; -1: not checked
  std::vector<double> times_us;                     // of one call (in steps: of one step), one for each run
  std::map<std::string, std::vector<double>> more;  // other values of the mode, by run
};

/// The median; 0 if there are no values.
double median(std::vector<double> values);
/// The median over the runs of a[i] / b[i]; 0 if there is nothing to divide.
double paired_ratio(const std::vector<double>& a, const std::vector<double>& b);

/// Bytes / time in GB/s; 0 without bytes.
double algorithm_bandwidth(const Row& row);
double bus_bandwidth(const Row& row);

/// The row of Dabke's shared-memory backend in the same job at the same size; null if it was not measured.
const Row* reference_of(const Row& row, const std::vector<Row>& rows);

nlohmann::json to_json(const std::vector<Row>& rows);
std::vector<Row> rows_from_json(const nlohmann::json& json);

/// The whole report: machine, command, rows, and values derived from them.
nlohmann::json report(const std::vector<Row>& rows, const std::vector<std::string>& command);

/// "AMD EPYC 7B13", from /proc/cpuinfo.
std::string cpu_model();
int core_count();

}  // namespace dabke::perf
