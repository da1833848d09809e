#include "timeline_viewer/report_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "runtime/base/text/counted.h"
#include "runtime/timeline/report/findings.h"

namespace dabke::viewer {
namespace {

constexpr std::size_t kLongestName = 44;
constexpr std::size_t kMostExposed = 5;

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, unit == 0 || value >= 10 ? 0 : 1, kUnits[unit]);
}

/// Names come from other programs, so characters that move the cursor are replaced. U+0080 to U+009F, which
/// are two bytes in UTF-8, are such characters.
std::string printable(std::string_view name) {
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto byte = static_cast<unsigned char>(name[i]);
    const bool is_c1 = byte == 0xc2 && i + 1 < name.size() && static_cast<unsigned char>(name[i + 1]) < 0xa0;
    text += byte < 0x20 || byte == 0x7f || is_c1 ? '?' : name[i];
    if (is_c1) ++i;
  }
  return text;
}

/// Cuts a name to the width of a column.
std::string shown(std::string_view name) {
  const std::string text = printable(name);
  if (text.size() <= kLongestName) return text;
  std::size_t from = text.size() - kLongestName + 3;
  while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xc0) == 0x80)
    ++from;  // whole characters
  return "..." + text.substr(from);
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double median_of_steps(const timeline::TraceReport& report,
                       double (*of)(const timeline::TraceReport::Step&)) {
  std::vector<double> values;
  for (std::size_t i = report.first_counted(); i < report.steps.size(); ++i)
    values.push_back(of(report.steps[i]));
  return median_of(std::move(values));
}

std::string share_text(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "-";
}

/// Returns a time since the trace's beginning, as exact as the page shows it, so that it can be found there.
std::string moment_text(double us) {
  return us < 1e6 ? fmt::format("{:.3f} ms", us / 1e3) : fmt::format("{:.6f} s", us / 1e6);
}

std::string findings_text(const timeline::TraceReport& report) {
  std::string text = "Findings\n";
  int number = 0;
  for (const timeline::TraceReport::Finding& finding : report.findings) {
    text += fmt::format("  {}. [{}] {}\n     {}\n", ++number, timeline::name_of(finding.severity),
                        printable(finding.title), printable(finding.text));
    if (!finding.advice.empty()) text += fmt::format("     -> {}\n", printable(finding.advice));
    for (const timeline::TraceReport::Evidence& one : finding.evidence) {
      text += fmt::format(
          "     at {}{}: {}{}\n", moment_text(one.start_us),
          one.end_us > one.start_us ? " for " + timeline::time_text(one.end_us - one.start_us) : "",
          one.rank == timeline::TraceReport::Evidence::kJob ? "all ranks" : fmt::format("rank {}", one.rank),
          one.tensor.empty() ? "" : fmt::format(", '{}'", shown(one.tensor)));
    }
  }
  return text;
}

std::string steps_text(const timeline::TraceReport& report) {
  const double whole = step_us(report);
  if (report.steps.empty()) {
    return "Steps: none are marked (dabke_mark_step, dabke.mark_step); the figures cover the whole trace\n";
  }
  const auto length = [](const timeline::TraceReport::Step& step) { return step.end_us - step.start_us; };
  const std::span steps = std::span(report.steps).subspan(report.first_counted());
  const auto [shortest, longest] = std::ranges::minmax(steps, {}, length);
  std::string text =
      fmt::format("Steps ({})\n  {}: median {}, shortest {}, longest {} (step {})",
                  printable(report.steps_are), counted(steps.size(), "step"), timeline::time_text(whole),
                  timeline::time_text(length(shortest)), timeline::time_text(length(longest)), longest.step);
  text += report.first_counted() == 0
              ? "\n"
              : fmt::format("; the first, which took {}, is left out of all figures\n",
                            timeline::time_text(length(report.steps.front())));
  const double busy =
      median_of_steps(report, [](const timeline::TraceReport::Step& step) { return step.communication_us; });
  text += fmt::format("  communication: {} ({})\n", timeline::time_text(busy), share_text(busy, whole));
  if (report.steps.front().exposed_us) {
    const double exposed = median_of_steps(
        report, [](const timeline::TraceReport::Step& step) { return step.exposed_us.value_or(0); });
    const double hidden = median_of_steps(
        report, [](const timeline::TraceReport::Step& step) { return step.overlapped_us.value_or(0); });
    text +=
        fmt::format("  exposed (the application waits): {} ({}); hidden behind computation: {}\n",
                    timeline::time_text(exposed), share_text(exposed, whole), timeline::time_text(hidden));
  }
  return text;
}

constexpr std::string_view kOverlapHead =
    "     bytes  bus MB/s  communication     hidden    exposed  for late ranks\n";

std::string overlap_columns(double bytes, const timeline::TraceReport::Overlap& one) {
  return fmt::format("  {:>8}  {:>8.{}f}  {:>13}  {:>9}  {:>9}  {:>14}\n",
                     bytes_text(static_cast<std::uint64_t>(bytes)), one.bus_bandwidth_mb_s,
                     one.bus_bandwidth_mb_s < 10 ? 2 : 0, timeline::time_text(one.communication_us),
                     timeline::time_text(one.hidden_us), timeline::time_text(one.exposed_us),
                     timeline::time_text(one.late_us));
}

/// Returns the mean of the counted steps of a rank, with the median of the bandwidths.
std::string mean_overlap(const timeline::TraceReport& report, int rank) {
  const std::size_t ranks = report.profiled->ranks.size();
  timeline::TraceReport::Overlap mean;
  double steps = 0, bytes = 0;
  std::vector<double> bandwidths;
  for (std::size_t i = ranks * report.first_counted(); i < report.profiled->overlap.size(); ++i) {
    const timeline::TraceReport::Overlap& one = report.profiled->overlap[i];
    if (one.rank != rank) continue;
    ++steps;
    bytes += static_cast<double>(one.bytes);
    mean.communication_us += one.communication_us;
    mean.hidden_us += one.hidden_us;
    mean.exposed_us += one.exposed_us;
    mean.late_us += one.late_us;
    if (one.bus_bandwidth_mb_s > 0) bandwidths.push_back(one.bus_bandwidth_mb_s);
  }
  steps = std::max(1.0, steps);
  for (double* const us : {&mean.communication_us, &mean.hidden_us, &mean.exposed_us, &mean.late_us})
    *us /= steps;
  mean.bus_bandwidth_mb_s = median_of(std::move(bandwidths));
  return overlap_columns(bytes / steps, mean);
}

std::string overlap_text(const timeline::TraceReport& report) {
  if (!report.profiled) return {};
  const timeline::TraceReport::Profiled& profiled = *report.profiled;
  const bool has_steps = !report.steps.empty();
  std::string text =
      fmt::format("Communication and computation of each rank ({}; profiles from {} to {})\n  {:>6}{}",
                  has_steps ? "mean of a step" : "in total", moment_text(profiled.start_us),
                  moment_text(profiled.end_us), "rank", kOverlapHead);
  for (const int rank : profiled.ranks) text += fmt::format("  {:>6}{}", rank, mean_overlap(report, rank));
  for (const int rank : report.ranks) {
    if (std::ranges::find(profiled.ranks, rank) == profiled.ranks.end())
      text += fmt::format("  {:>6}  no profile: the time that computation hides is not known\n", rank);
  }
  if (!has_steps) return text;
  std::vector<const timeline::TraceReport::Overlap*> worst;
  for (std::size_t i = profiled.ranks.size() * report.first_counted(); i < profiled.overlap.size(); ++i)
    worst.push_back(&profiled.overlap[i]);
  std::ranges::stable_sort(worst, std::greater<>(), [](const auto* one) { return one->exposed_us; });
  worst.resize(std::min<std::size_t>(worst.size(), kMostExposed));
  text += fmt::format("The most exposed steps\n  {:>6}  {:>4}{}", "step", "rank", kOverlapHead);
  for (const timeline::TraceReport::Overlap* const one : worst) {
    text += fmt::format("  {:>6}  {:>4}{}", one->step.value_or(0), one->rank,
                        overlap_columns(static_cast<double>(one->bytes), *one));
  }
  return text;
}

std::string exposed_tensors_text(const timeline::TraceReport& report) {
  if (!report.profiled || report.profiled->tensors.empty()) return {};
  std::string text = fmt::format(
      "The most exposed tensors (mean of one batch with the tensor)\n  {:<{}}  {:>6}  {:>8}  {:>13}  "
      "{:>9}  {:>9}\n",
      "name", kLongestName, "count", "bytes", "communication", "hidden", "exposed");
  for (const timeline::TraceReport::ExposedTensor& one : report.profiled->tensors) {
    text += fmt::format("  {:<{}}  {:>6}  {:>8}  {:>13}  {:>9}  {:>9}\n", shown(one.name), kLongestName,
                        one.count, bytes_text(one.bytes), timeline::time_text(one.communication_us),
                        timeline::time_text(std::max(0.0, one.communication_us - one.exposed_us)),
                        timeline::time_text(one.exposed_us));
  }
  return text;
}

std::string phases_text(const timeline::TraceReport& report) {
  const timeline::TraceReport::Phases& phases = report.phases;
  return fmt::format(
      "Time of tensors by phase ({}, mean of the ranks)\n  negotiation {}, queue {}, pack {}, collective {}, "
      "unpack {}\n",
      report.steps.empty() ? "in total" : "per step", timeline::time_text(phases.negotiate_us),
      timeline::time_text(phases.queue_us), timeline::time_text(phases.pack_us),
      timeline::time_text(phases.collective_us), timeline::time_text(phases.unpack_us));
}

std::string cost_text(const timeline::TraceReport& report) {
  if (report.ranks.size() < 2) return {};
  if (!report.names_last_rank()) return "Last ranks: not recorded in this trace\n";
  const bool has_steps = !report.steps.empty();
  const std::string of_which =
      report.compared < report.fusion.batches
          ? fmt::format(" (known for {} of {} batches)", report.compared, report.fusion.batches)
          : "";
  std::string text = fmt::format("Last ranks{}\n  {:>6}  {:>8}  {:>18}{}\n", of_which, "rank", "last in",
                                 has_steps ? "cost, typical step" : "cost in total",
                                 has_steps ? fmt::format("  {:>10}", "on average") : "");
  // Otherwise most of the cost may be unknown to the trace.
  const bool is_known = 2 * report.compared > report.fusion.batches;
  const auto cost_of = [&](double us) { return is_known ? timeline::time_text(us) : std::string("unknown"); };
  for (std::size_t i = 0; i < report.cost.size() && i < 8; ++i) {
    const timeline::TraceReport::Cost& cost = report.cost[i];
    text += fmt::format("  {:>6}  {:>8}  {:>18}{}\n", cost.rank,
                        fmt::format("{:.0f} %", 100 * cost.last_share), cost_of(cost.caused_median_us),
                        has_steps ? fmt::format("  {:>10}", cost_of(cost.caused_per_step_us)) : "");
  }
  return text;
}

std::string tensors_text(const timeline::TraceReport& report) {
  if (report.tensors.empty()) return {};
  std::string text = fmt::format(
      "The slowest tensors (mean of one call)\n  {:<{}}  {:>8}  {:>8}  {:>9}  {:>9}  {:>10}  {:>4}\n", "name",
      kLongestName, "count", "bytes", "negotiate", "queue", "collective", "last");
  for (const timeline::TraceReport::Tensor& tensor : report.tensors) {
    text +=
        fmt::format("  {:<{}}  {:>8}  {:>8}  {:>9}  {:>9}  {:>10}  {:>4}\n", shown(tensor.name), kLongestName,
                    tensor.count, bytes_text(tensor.bytes), timeline::time_text(tensor.negotiate_us),
                    timeline::time_text(tensor.queue_us), timeline::time_text(tensor.collective_us),
                    tensor.last_rank ? std::to_string(*tensor.last_rank) : "-");
  }
  return text;
}

std::string sizes_text(const timeline::TraceReport& report) {
  if (report.sizes.empty()) return {};
  std::string text =
      fmt::format("Bandwidth by size of batch (medians)\n  {:>10}  {:<12}  {:<14}  {:>7}  {:>14}  {:>14}\n",
                  "up to", "backend", "algorithm", "count", "algorithm MB/s", "bus MB/s");
  const auto speed = [](double mb_s) { return fmt::format("{:.{}f}", mb_s, mb_s < 10 ? 2 : 0); };
  for (const timeline::TraceReport::SizeClass& size : report.sizes) {
    text += fmt::format("  {:>10}  {:<12}  {:<14}  {:>7}  {:>14}  {:>14}\n", bytes_text(size.bytes_to),
                        size.backend, size.algorithm, size.count, speed(size.algorithm_bandwidth_mb_s),
                        speed(size.bus_bandwidth_mb_s));
  }
  return text;
}

std::string fusion_text(const timeline::TraceReport& report) {
  if (report.fusion.tensors == 0) return {};
  std::string text = fmt::format(
      "Fusion: {} in {} {}, {:.1f} per batch on average\n", counted(report.fusion.tensors, "tensor"),
      report.fusion.batches, report.fusion.batches == 1 ? "batch" : "batches", report.fusion.mean_tensors);
  for (const timeline::TraceReport::Fusion::Bar& bar : report.fusion.histogram) {
    text += fmt::format(
        "  {:>6} to {:<6} {:>8}  {}\n", bar.tensors_from, bar.tensors_to, bar.count,
        std::string(
            static_cast<std::size_t>(40.0 * static_cast<double>(bar.count) /
                                     static_cast<double>(std::max<std::uint64_t>(1, report.fusion.batches))),
            '#'));
  }
  return text;
}

std::string changes_text(const timeline::TraceReport& report) {
  if (report.changes.empty()) return {};
  std::string text = fmt::format("Changes of the ranks: {} in {}\n", timeline::time_text(report.changes_us),
                                 counted(report.changes.size(), "change"));
  for (const timeline::TraceReport::Change& one : report.changes) {
    text += fmt::format("  at {} for {}: epoch {}: {}\n", moment_text(one.start_us),
                        timeline::time_text(one.end_us - one.start_us), one.epoch, printable(one.text));
  }
  return text;
}

std::string change_text(std::string_view what, double before, double after) {
  const std::string change = before > 0 ? fmt::format("{:+.1f} %", 100 * (after - before) / before) : "-";
  return fmt::format("  {:<{}}  {:>10}  {:>10}  {:>9}\n", shown(what), kLongestName,
                     timeline::time_text(before), timeline::time_text(after), change);
}

double time_of(const timeline::TraceReport::Tensor& tensor) {
  return tensor.negotiate_us + tensor.queue_us + tensor.pack_us + tensor.collective_us + tensor.unpack_us;
}

}  // namespace

double step_us(const timeline::TraceReport& report) {
  if (report.steps.empty()) return report.duration_us;
  return median_of_steps(report,
                         [](const timeline::TraceReport::Step& step) { return step.end_us - step.start_us; });
}

std::string text_of(const timeline::TraceReport& report) {
  std::string text =
      fmt::format("{}: {}, {}\n", printable(report.source), counted(report.ranks.size(), "rank"),
                  timeline::time_text(report.duration_us));
  if (report.clock_error_us > 0)
    text += fmt::format("The hosts' clocks were compared: times of different hosts may be off by {}\n",
                        timeline::time_text(report.clock_error_us));
  for (const std::string& part :
       {findings_text(report), changes_text(report), steps_text(report), overlap_text(report),
        exposed_tensors_text(report), cost_text(report), phases_text(report), tensors_text(report),
        sizes_text(report), fusion_text(report)}) {
    if (!part.empty()) text += "\n" + part;
  }
  return text;
}

std::string difference_text(const timeline::TraceReport& before, const timeline::TraceReport& after) {
  const auto head = [](std::string_view when, const timeline::TraceReport& of) {
    return fmt::format("{:<6}  {}: {}, {} steps\n", when, printable(of.source),
                       counted(of.ranks.size(), "rank"), of.steps.size());
  };
  std::string text = head("before", before) + head("after", after);
  if (before.ranks.size() != after.ranks.size())
    text += fmt::format("Note: the traces have different numbers of ranks ({} and {}).\n",
                        before.ranks.size(), after.ranks.size());
  text += fmt::format("\n  {:<{}}  {:>10}  {:>10}  {:>9}\n", "", kLongestName, "before", "after", "change");
  text += change_text(before.steps.empty() || after.steps.empty() ? "whole trace" : "step (median)",
                      step_us(before), step_us(after));
  const auto communication = [](const timeline::TraceReport& report) {
    return median_of_steps(report,
                           [](const timeline::TraceReport::Step& step) { return step.communication_us; });
  };
  const auto exposed = [](const timeline::TraceReport& report) {
    return median_of_steps(
        report, [](const timeline::TraceReport::Step& step) { return step.exposed_us.value_or(0); });
  };
  text += change_text("communication", communication(before), communication(after));
  text += change_text("exposed", exposed(before), exposed(after));
  text += change_text("waiting for late ranks", before.late_us, after.late_us);
  text += change_text("negotiation", before.phases.negotiate_us, after.phases.negotiate_us);
  text += change_text("queue", before.phases.queue_us, after.phases.queue_us);
  text += change_text("pack and unpack", before.phases.pack_us + before.phases.unpack_us,
                      after.phases.pack_us + after.phases.unpack_us);
  text += change_text("collective", before.phases.collective_us, after.phases.collective_us);
  std::map<std::string, double> was;
  for (const timeline::TraceReport::Tensor& tensor : before.tensors) was[tensor.name] = time_of(tensor);
  std::string tensors;
  for (const timeline::TraceReport::Tensor& tensor : after.tensors) {
    if (const auto known = was.find(tensor.name); known != was.end())
      tensors += change_text(tensor.name, known->second, time_of(tensor));
  }
  if (!tensors.empty()) text += "\n  The slowest tensors, from submit to result\n" + tensors;
  const auto titles = [](const timeline::TraceReport& from, const timeline::TraceReport& other,
                         std::string_view word) {
    std::string lines;
    for (const timeline::TraceReport::Finding& finding : from.findings) {
      // Titles contain measured numbers, so findings are compared by id. A late rank's title counts,
      // since it names the rank.
      const auto is_same = [&](const timeline::TraceReport::Finding& one) {
        return one.id == finding.id && (one.id != "late-rank" || one.title == finding.title);
      };
      if (std::ranges::none_of(other.findings, is_same))
        lines += fmt::format("  {}: {}\n", word, printable(finding.title));
    }
    return lines;
  };
  const std::string changed = titles(after, before, "new") + titles(before, after, "gone");
  return changed.empty() ? text : text + "\n" + changed;
}

}  // namespace dabke::viewer
