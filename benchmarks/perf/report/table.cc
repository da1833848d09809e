#include "benchmarks/perf/report/table.h"

#include <algorithm>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "benchmarks/perf/competitors/competitor.h"
#include "benchmarks/perf/report/targets.h"
#include "dabke/dabke.h"

namespace dabke::perf {
namespace {

/// About four digits, whatever the size.
std::string number(double value) {
  return fmt::format("{:.{}f}", value, value < 10 ? 2 : value < 1000 ? 1 : 0);
}

std::string range(const std::vector<double>& values, double scale = 1) {
  if (values.empty()) return {};
  const auto [least, most] = std::ranges::minmax(values);
  return fmt::format("{}..{}", number(least * scale), number(most * scale));
}

/// The name of the competitor, and its job if several jobs have measured it.
std::string label(const Row& row, const std::vector<Row>& rows) {
  const bool twice = std::ranges::any_of(
      rows, [&](const Row& other) { return other.competitor == row.competitor && other.job != row.job; });
  std::string text = row.competitor;
  if (twice) text += " @" + row.job;
  if (!row.detail.empty()) text += ", " + row.detail;
  return text;
}

std::string ratio_to_shm(const Row& row, const std::vector<Row>& rows) {
  const Row* const shm = reference_of(row, rows);
  return shm == nullptr ? "" : fmt::format("{:.2f}", paired_ratio(row.times_us, shm->times_us));
}

std::string verdict(const Row& row, const std::vector<Row>& rows) {
  const auto target = target_of(row, rows);
  return target ? target->to_string() : "";
}

std::string wrong_text(const Row& row) { return row.wrong < 0 ? "-" : std::to_string(row.wrong); }

/// The distance between the cores of two ranks, as the time of a line.
std::string line_text(const Row& row) {
  const auto lines = row.more.find("line_ns");
  const double ns = lines == row.more.end() ? 0 : median(lines->second);
  return ns == 0 ? "-" : fmt::format("{:.0f}", ns);
}

/// Small sizes first, and rows that are compared next to each other.
std::vector<Row> sorted(std::vector<Row> rows) {
  std::ranges::stable_sort(rows, {}, [](const Row& row) { return std::tuple(!row.in_place, row.bytes); });
  return rows;
}

std::string sweep_table(const std::vector<Row>& unsorted) {
  std::string text =
      fmt::format("{:>10} {:>10}  {:<22}{:>9}{:>18}{:>8}{:>7}{:>7}{:>8}{:>5}  {}\n", "bytes", "count",
                  "competitor", "time us", "min..max", "algbw", "busbw", "#wrong", "/ shm", "line", "target");
  const auto rows = sorted(unsorted);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const bool is_first = i == 0 || rows[i - 1].bytes != row.bytes || rows[i - 1].in_place != row.in_place;
    if (i == 0 || rows[i - 1].in_place != row.in_place)
      text += row.in_place ? "# in place\n" : "# out of place\n";
    text += fmt::format("{:>10} {:>10}  {:<22}{:>9}{:>18}{:>8.2f}{:>7.2f}{:>7}{:>8}{:>5}  {}\n",
                        is_first ? std::to_string(row.bytes) : "", is_first ? std::to_string(row.count) : "",
                        label(row, rows), number(median(row.times_us)), range(row.times_us),
                        algorithm_bandwidth(row), bus_bandwidth(row), wrong_text(row),
                        ratio_to_shm(row, rows), line_text(row), verdict(row, rows));
  }
  return text;
}

std::string latency_table(const std::vector<Row>& rows) {
  std::string text =
      fmt::format("{:>8}  {:<24}{:>11}{:>18}{:>10}{:>10}{:>8}{:>8}  {}\n", "bytes", "competitor", "median us",
                  "min..max", "p99", "best", "#wrong", "/ shm", "target");
  for (const Row& row : rows) {
    text += fmt::format("{:>8}  {:<24}{:>11}{:>18}{:>10}{:>10}{:>8}{:>8}  {}\n", row.bytes, label(row, rows),
                        number(median(row.times_us)), range(row.times_us),
                        number(median(row.more.at("p99_us"))), number(median(row.more.at("best_us"))),
                        wrong_text(row), ratio_to_shm(row, rows), verdict(row, rows));
  }
  return text;
}

std::string idle_table(const std::vector<Row>& rows) {
  std::string text = fmt::format("{:<24}{:>18}{:>18}{:>16}{:>16}  {}\n", "competitor", "% of a core",
                                 "min..max", "wake-ups / s", "min..max", "target");
  for (const Row& row : rows) {
    const auto& cpu = row.more.at("cpu_percent");
    const auto& wake_ups = row.more.at("wake_ups_per_second");
    text += fmt::format("{:<24}{:>18.4f}{:>18}{:>16.1f}{:>16}  {}\n", label(row, rows), median(cpu),
                        range(cpu), median(wake_ups), range(wake_ups), verdict(row, rows));
  }
  return text;
}

std::string steps_table(const std::vector<Row>& rows) {
  std::string text =
      fmt::format("{:<20}{:>9}{:>10}{:>10}{:>18}{:>10}{:>13}{:>12}{:>7}  {}\n", "competitor", "tensors", "MB",
                  "step ms", "min..max", "flat ms", "step / flat", "us a tensor", "#wrong", "target");
  for (const Row& row : rows) {
    const auto& flat = row.more.at("flat_us");
    const double us = median(row.times_us);
    text += fmt::format("{:<20}{:>9}{:>10.1f}{:>10}{:>18}{:>10}{:>13.2f}{:>12.2f}{:>7}  {}\n",
                        label(row, rows), row.count, static_cast<double>(row.bytes) * 1e-6, number(us * 1e-3),
                        range(row.times_us, 1e-3), number(median(flat) * 1e-3),
                        paired_ratio(row.times_us, flat), us / static_cast<double>(row.count),
                        wrong_text(row), row.more.contains("timeline_us") ? "" : verdict(row, rows));
  }
  for (const Row& row : rows) {
    if (!row.more.contains("timeline_us")) continue;
    const auto& traced = row.more.at("timeline_us");
    text += fmt::format("{:<20}with a timeline {:>8} ms {:>18}, times the step without: {:.3f} {}\n",
                        label(row, rows), number(median(traced) * 1e-3), range(traced, 1e-3),
                        paired_ratio(traced, row.times_us), verdict(row, rows));
    const auto writer = row.more.find("timeline_writer_percent");
    if (writer != row.more.end())
      text += fmt::format("{:<20}whoever writes it takes {:.2f} % of a core on the rank with the most\n", "",
                          median(writer->second));
  }
  return text;
}

/// Removes the spaces at the ends of rows whose last column is empty.
std::string without_trailing_spaces(const std::string& text) {
  std::string out;
  for (const char c : text) {
    while (c == '\n' && !out.empty() && out.back() == ' ') out.pop_back();
    out += c;
  }
  return out;
}

std::string headline(const Row& row, const Options& options) {
  std::string what = row.collective;
  if (row.mode == "steps") {
    what = options.model.empty() ? "steps of equal tensors" : fmt::format("steps of {}", row.collective);
    what += fmt::format(", {}", row.dtype);
  } else if (row.mode == "idle") {
    what = "a job that does nothing";
  } else if (row.collective != "barrier") {
    what += fmt::format(", {}{}{}", row.dtype, row.op.empty() ? "" : " ", row.op);
  }
  return fmt::format(
      "# dabke-perf {}: {}; {} ranks on {} cores ({})\n# {}; {} run{} of {} s a competitor{}\n",
      dabke_version(), what, row.ranks, row.cores, cpu_model(),
      options.raw ? "Dabke's backends called directly" : "Dabke by its public API", options.runs,
      options.runs == 1 ? "" : "s", options.seconds,
      options.memory == "dabke" ? "; memory from dabke_alloc" : "");
}

}  // namespace

std::string to_table(const std::vector<Row>& rows, const Options& options) {
  if (rows.empty()) return {};
  std::string text = headline(rows.front(), options);
  switch (options.mode) {
    case Mode::latency: text += latency_table(rows); break;
    case Mode::idle: text += idle_table(rows); break;
    case Mode::steps: text += steps_table(rows); break;
    case Mode::sweep:
      text +=
          "# algbw and busbw in GB/s; / shm: time divided by that of dabke shm, median of the runs\n"
          "# line: ns that a cache line takes from rank 0 to rank 1 meanwhile\n";
      text += sweep_table(rows);
  }
  return without_trailing_spaces(text);
}

}  // namespace dabke::perf
