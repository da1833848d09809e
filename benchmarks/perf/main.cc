#include <cstdio>
#include <exception>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "benchmarks/perf/jobs/jobs.h"
#include "benchmarks/perf/jobs/places.h"
#include "benchmarks/perf/jobs/rank.h"
#include "benchmarks/perf/options.h"
#include "benchmarks/perf/report/table.h"

namespace dabke::perf {
namespace {

int fail(const Status& status, int code) {
  fmt::print(stderr, "dabke-perf: {}\n", status.message());
  return code;
}

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << '\n';
  file.close();
  if (file) return {};
  return {Code::invalid_argument,
          fmt::format("cannot write '{}'; name a file in a folder that is there", path)};
}

/// Prints the table and writes the file. Returns the exit code, which shows whether all was right.
int show(const std::vector<Row>& rows, const Options& options, const std::vector<std::string>& command) {
  fmt::print("{}", to_table(rows, options));
  if (!options.json.empty()) {
    if (const Status written = write_file(options.json, report(rows, command).dump(1)); !written.is_ok())
      return fail(written, 1);
  }
  std::int64_t wrong = 0;
  for (const Row& row : rows) wrong += std::max<std::int64_t>(row.wrong, 0);
  if (wrong == 0) return 0;
  return fail({Code::internal, fmt::format("{} elements were wrong; see #wrong", wrong)}, 1);
}

int be_a_rank(const Options& options, const std::vector<std::string>& command) {
  const auto measured = measure_as_rank(options);
  if (!measured) return fail(measured.status(), 1);
  if (measured->rank != 0) return 0;
  if (options.rank_results.empty()) return show(measured->rows, options, command);
  const Status written = write_file(options.rank_results, to_json(measured->rows).dump());
  return written.is_ok() ? 0 : fail(written, 1);
}

/// Checks for errors that otherwise show only after minutes, or on every rank.
Status check_files(const Options& options) {
  if (!options.model.empty()) DABKE_RETURN_IF_ERROR(model_path(options.model).status());
  return options.json.empty() ? Status() : write_file(options.json, "");
}

int start_jobs(const Options& options, const std::vector<std::string>& command) {
  if (const Status files = check_files(options); !files.is_ok()) return fail(files, 2);
  const auto jobs = plan_jobs(options, find_launchers());
  if (!jobs) return fail(jobs.status(), 2);
  std::vector<Row> rows;
  for (const Job& job : *jobs) {
    const auto seen = run_job(job, {command.begin() + 1, command.end()});
    if (!seen) return fail(seen.status(), 1);
    rows.insert(rows.end(), seen->begin(), seen->end());
  }
  return show(rows, options, command);
}

int run(const std::vector<std::string>& command) {
  const auto options = parse_options(std::span(command).subspan(1));
  if (!options) return fail(options.status(), 2);
  if (options->help) {
    fmt::print("{}", help_text());
    return 0;
  }
  return is_in_job() ? be_a_rank(*options, command) : start_jobs(*options, command);
}

}  // namespace
}  // namespace dabke::perf

int main(int argc, char** argv) {
  try {
    return dabke::perf::run({argv, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "dabke-perf: {}\n", error.what());
    return 1;
  }
}
