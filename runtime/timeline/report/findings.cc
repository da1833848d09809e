#include "runtime/timeline/report/findings.h"
#include "runtime/base/text/counted.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace dabke::timeline {
namespace {

using Severity = TraceReport::Severity;

/// The share of all waiting that a rank must explain to be named as the cause.
constexpr double kExplained = 0.8;
// Shares of a step from which on a finding is reported at all, is medium, and is high.
constexpr double kLow = 0.02, kMedium = 0.05, kHigh = 0.15;
/// The size below which a tensor is small: starting the collective costs more than moving the bytes.
constexpr std::uint64_t kSmallBytes = 64 << 10;
// The least data for a conclusion. Fewer steps, fewer batches or fewer milliseconds may
// show nothing but chance.
constexpr std::size_t kFewestCounted = 3;
constexpr std::uint64_t kFewestBatches = 10;
constexpr double kLeastSecondsWithoutSteps = 1;
constexpr double kLeastWaitedUs = 2e3;
/// Changes of the ranks that take so long are worth a finding, however long the job is.
constexpr double kManySecondsOfChanges = 10;

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

/// Makes the findings. The members hold figures that several findings need.
class Findings {
 public:
  explicit Findings(TraceReport& report) : report_(report) {
    std::vector<double> lengths, exposed;
    for (std::size_t i = report.first_counted(); i < report.steps.size(); ++i) {
      const TraceReport::Step& step = report.steps[i];
      lengths.push_back(step.end_us - step.start_us);
      if (step.exposed_us) exposed.push_back(*step.exposed_us);
    }
    steps_ = lengths.size();
    step_us_ = lengths.empty() ? report.duration_us : median_of(lengths);
    mean_step_us_ = lengths.empty() ? report.duration_us : mean_of(lengths);
    exposed_us_ = exposed.empty() && report.steps.empty() ? report.exposed_us
                  : exposed.empty()                       ? std::nullopt
                                                          : std::optional(median_of(exposed));
    unit_ = lengths.empty() ? "in total" : "per step";
  }

  void add_all() {
    add_failures();
    add_changes();
    if (is_long_enough()) {
      add_lateness();
      add_spans();
      add_exposed();
      add_small_batches();
      add_copies();
      add_long_steps();
    } else if (report_.fusion.batches > 0) {
      add_too_short();
    }
    add_notes();
    if (report_.findings.empty()) add_nothing();
    std::ranges::stable_sort(report_.findings, {}, &TraceReport::Finding::severity);
  }

 private:
  double of_step(double us) const { return step_us_ > 0 ? us / step_us_ : 0; }
  double of_mean_step(double us) const { return mean_step_us_ > 0 ? us / mean_step_us_ : 0; }
  static Severity by_share(double share) {
    return share >= kHigh ? Severity::high : share >= kMedium ? Severity::medium : Severity::low;
  }
  void add(TraceReport::Finding finding) { report_.findings.push_back(std::move(finding)); }

  bool is_long_enough() const {
    const bool has_steps = !report_.steps.empty();
    return has_steps ? steps_ >= kFewestCounted : report_.duration_us >= kLeastSecondsWithoutSteps * 1e6;
  }
  /// True if `us` a step, or in all, adds up to more than chance.
  bool is_much(double us) const {
    return us * static_cast<double>(std::max<std::size_t>(1, steps_)) >= kLeastWaitedUs;
  }

  void add_too_short() {
    const std::string seen = report_.steps.empty()
                                 ? fmt::format("It has {} and no steps", time_text(report_.duration_us))
                                 : fmt::format("It has {} besides the first", counted(steps_, "step"));
    add({"too-short",
         Severity::low,
         "The trace is too short to show what is slow",
         fmt::format("{}; findings need {} steps besides the first, or {:.0f} s without steps.", seen,
                     kFewestCounted, kLeastSecondsWithoutSteps),
         "Record more steps; the figures below cover only what was recorded.",
         {}});
  }

  void add_failures() {
    if (report_.failed > 0) {
      std::vector<std::string> tensors;
      for (const TraceReport::Failure& one : report_.failures) {
        if (std::ranges::find(tensors, one.tensor) == tensors.end()) tensors.push_back(one.tensor);
      }
      const TraceReport::Failure& first = report_.failures.front();
      std::string ranks;
      std::size_t of_first = 0;
      for (const TraceReport::Failure& one : report_.failures) {
        if (one.tensor != first.tensor || one.text != first.text) continue;
        ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", one.rank);
        ++of_first;
      }
      std::vector<TraceReport::Evidence> evidence;
      for (const TraceReport::Failure& one : report_.failures) {
        if (evidence.size() < 3) evidence.push_back({one.rank, one.at_us, one.at_us, one.tensor, 0});
      }
      add({"failed", Severity::high,
           report_.failed == of_first ? fmt::format("Tensor '{}' failed", first.tensor)
           : tensors.size() == 1
               ? fmt::format("Tensor '{}' failed {} times", first.tensor, report_.failed)
               : fmt::format("{} operations failed, first '{}'", report_.failed, first.tensor),
           fmt::format("On rank{} {}: {}", of_first == 1 ? "" : "s", ranks,
                       first.text.empty() ? "the trace does not contain the error's text" : first.text),
           report_.failed == of_first ? "Correct what this text names."
                                      : "Correct what this text names; later failures may follow from it.",
           std::move(evidence)});
    }
    if (report_.unfinished > 0) {
      add({"unfinished",
           Severity::medium,
           report_.unfinished == 1
               ? "A tensor was submitted and never finished"
               : fmt::format("{} tensors were submitted and never finished", report_.unfinished),
           "The timeline or the job ended earlier.",
           "If the job hung, find the ranks that did not submit them; `dabke-timeline check` names each "
           "tensor.",
           {}});
    }
  }

  /// The share counts of the whole trace, and a few seconds matter in a long one, too.
  void add_changes() {
    if (report_.changes.empty()) return;
    const double share = report_.duration_us > 0 ? report_.changes_us / report_.duration_us : 0;
    if (share < kLow && report_.changes_us < kManySecondsOfChanges * 1e6) return;
    const auto length = [](const TraceReport::Change& one) { return one.end_us - one.start_us; };
    std::vector<TraceReport::Change> longest = report_.changes;
    std::ranges::stable_sort(longest, std::greater<>(), length);
    std::vector<TraceReport::Evidence> evidence;
    for (const TraceReport::Change& one : longest) {
      if (evidence.size() < 3)
        evidence.push_back({TraceReport::Evidence::kJob, one.start_us, one.end_us, "", 0});
    }
    add({"changes", by_share(share),
         fmt::format("Changes of the ranks cost {}", time_text(report_.changes_us)),
         fmt::format("{} took {} of the trace. The longest took {}: epoch {}: {}.",
                     counted(longest.size(), "change"), percent(share), time_text(length(longest.front())),
                     longest.front().epoch, longest.front().text),
         "Check why these ranks were lost, and what the program does in its new epoch before its first "
         "batch. "
         "Spares (dabkerun --spares) have imported the program when they are needed.",
         std::move(evidence)});
  }

  /// The share of all waiting for other ranks that is caused by this rank alone.
  double explained_by(const TraceReport::Cost& cost) const {
    const auto ranks = static_cast<double>(report_.ranks.size());
    return report_.late_us > 0 ? cost.caused_per_step_us * (ranks - 1) / (report_.late_us * ranks) : 0;
  }

  void add_lateness() {
    if (report_.cost.empty() || report_.ranks.size() < 2 || of_mean_step(report_.late_us) < kLow / 2) return;
    if (report_.compared < kFewestBatches || !is_much(report_.late_us)) return;
    const TraceReport::Cost& dearest = report_.cost.front();
    // A few unusual steps do not change the median, so it is used if it is large enough. The mean is better
    // for a rank that is late only now and then.
    const bool is_usual = dearest.caused_median_us > dearest.caused_per_step_us / 2;
    const double cost_us = is_usual ? dearest.caused_median_us : dearest.caused_per_step_us;
    const double share = is_usual ? of_step(cost_us) : of_mean_step(cost_us);
    if (explained_by(dearest) < kExplained) return add_unknown_lateness();
    if (share < kLow || !is_much(cost_us)) return;
    late_rank_ = dearest.rank;
    TraceReport::Finding finding{
        "late-rank",
        by_share(share),
        fmt::format("Rank {} delays the others", dearest.rank),
        fmt::format("Rank {} was last in {} of the batches and cost the others {} {} ({}).", dearest.rank,
                    percent(dearest.last_share), time_text(cost_us),
                    report_.steps.empty() ? "in total"
                    : is_usual            ? "in a typical step"
                                          : "per step on average",
                    percent(share)),
        fmt::format("Check what rank {} does before its tensors are ready: data loading, a larger share of "
                    "the data, other programs on its host, a slower or hotter machine.",
                    dearest.rank),
        dearest.worst};
    if (report_.clock_error_us > cost_us) {
      finding.severity = Severity::low;
      finding.text += fmt::format(" The hosts' clocks may be wrong by {}, which is more than that.",
                                  time_text(report_.clock_error_us));
    }
    add(std::move(finding));
  }

  /// Adds the spans that take longer on one rank than on the others, which may be why that rank is late.
  void add_spans() {
    for (const TraceReport::Span& span : report_.spans) {
      const double more_us = span.us - span.others_us;
      if (span.count < kFewestCounted || more_us < span.others_us / 2 || !is_much(more_us)) continue;
      const double share = of_mean_step(more_us);
      const bool is_of_late_rank = late_rank_ == span.rank;
      if (share < (is_of_late_rank ? kLow : kMedium)) continue;
      add({"long-span",
           is_of_late_rank ? Severity::medium : Severity::low,
           fmt::format("'{}' takes longer on rank {}", span.name, span.rank),
           fmt::format("Without waiting for tensors, it takes {} {} there, and {} on the others (median).{}",
                       time_text(span.us), unit_, time_text(span.others_us),
                       is_of_late_rank ? " The others wait for this rank." : ""),
           fmt::format("Check what '{}' does on rank {}: its share of the data, its disk, other programs on "
                       "its host.",
                       span.name, span.rank),
           {}});
    }
  }

  void add_unknown_lateness() {
    const double share = of_mean_step(report_.late_us);
    if (share < kMedium) return;
    std::string who;
    for (const TraceReport::Cost& cost : report_.cost) {
      if (who.size() < 200)
        who += fmt::format("{}rank {} in {}", who.empty() ? "" : ", ", cost.rank, percent(cost.last_share));
    }
    add({"unknown-wait",
         by_share(share),
         "Ranks wait for each other; the cause is unknown",
         fmt::format("A rank waits {} {} for others ({}), and no single rank explains it. Last to arrive: {} "
                     "of the batches.",
                     time_text(report_.late_us), unit_, percent(share), who),
         "Look for differences between steps: batches of unequal size, cores or disks that ranks share, "
         "garbage collection, more ranks than cores.",
         {}});
  }

  void add_exposed() {
    if (!exposed_us_) return;
    const double network_us = std::max(0.0, *exposed_us_ - report_.late_us);
    const double share = of_step(network_us);
    if (share < kMedium || !is_much(network_us)) return;
    const TraceReport::Phases& phases = report_.phases;
    struct Part {
      double us;
      const char* what;
      const char* advice;
    };
    const Part parts[] = {
        {phases.collective_us, "moving the data",
         "Send less (compression to float16 or bfloat16, several backward passes per step), or use a faster "
         "network or backend; see the bandwidth by size."},
        {phases.pack_us + phases.unpack_us, "copying into and out of the fusion buffer",
         "Put gradients into memory from dabke_alloc, or lower DABKE_FUSION_THRESHOLD so that large tensors "
         "travel alone."},
        {phases.queue_us, "batches waiting for earlier batches",
         "The collectives are the bottleneck, not their order: send less, or start them earlier."},
    };
    if (report_.cost.size() > 1 && !report_.names_last_rank()) {
      add({"exposed",
           by_share(share),
           "The application waits for communication",
           fmt::format("It waits {} {} for tensors ({}). This trace does not show how much of that is "
                       "waiting for late ranks.",
                       time_text(network_us), unit_, percent(share)),
           "Record the job with dabkerun --timeline-filename trace.json, which shows late ranks. If no rank "
           "is late, send less, or use a faster network or backend.",
           {}});
      return;
    }
    const Part& largest = *std::ranges::max_element(parts, {}, &Part::us);
    add({"exposed",
         by_share(share),
         "The application waits for communication",
         fmt::format(
             "Apart from late ranks, it waits {} {} for tensors ({}). Most of the communication is {}.",
             time_text(network_us), unit_, percent(share), largest.what),
         largest.advice,
         {}});
  }

  void add_small_batches() {
    const TraceReport::Fusion& fusion = report_.fusion;
    const auto steps = static_cast<double>(std::max<std::size_t>(1, report_.steps.size()));
    if (fusion.tensors == 0 || fusion.mean_tensors >= 2 || static_cast<double>(fusion.tensors) / steps < 16)
      return;
    std::uint64_t small = 0, all = 0;
    for (const TraceReport::SizeClass& size : report_.sizes) {
      all += size.count;
      if (size.bytes_to <= kSmallBytes) small += size.count;
    }
    if (2 * small < all || all == 0) return;
    add({"small-batches",
         Severity::medium,
         "Small tensors travel one by one",
         fmt::format("{:.0f} tensors per step, {:.1f} per batch, and {} of the batches are below 64 KiB.",
                     static_cast<double>(fusion.tensors) / steps, fusion.mean_tensors,
                     percent(static_cast<double>(small) / static_cast<double>(all))),
         "Submit them without waiting in between (with _async or grouped calls), in one dtype and process "
         "set, so that they are fused.",
         {}});
  }

  void add_copies() {
    const double copies = report_.phases.pack_us + report_.phases.unpack_us;
    const double all = copies + report_.phases.collective_us;
    if (all <= 0 || copies / all < 0.4 || of_step(copies) < kMedium) return;
    add({"copies",
         Severity::low,
         "The fusion buffer costs as much as the collectives",
         fmt::format("Copying takes {} {}, {} of the batches' time.", time_text(copies), unit_,
                     percent(copies / all)),
         "Put gradients into memory from dabke_alloc, or lower DABKE_FUSION_THRESHOLD.",
         {}});
  }

  void add_long_steps() {
    std::vector<const TraceReport::Step*> longer;
    for (std::size_t i = report_.first_counted(); i < report_.steps.size(); ++i) {
      const TraceReport::Step& step = report_.steps[i];
      if (step.end_us - step.start_us > 2 * step_us_) longer.push_back(&step);
    }
    if (longer.empty() || steps_ < 10) return;
    const auto length = [](const TraceReport::Step* step) { return step->end_us - step->start_us; };
    std::ranges::sort(longer, std::greater<>(), length);
    std::vector<TraceReport::Evidence> evidence;
    for (const TraceReport::Step* const step : longer) {
      if (evidence.size() < 3)
        evidence.push_back({report_.ranks.front(), step->start_us, step->end_us, "", 0});
    }
    add({"long-steps", Severity::low,
         fmt::format("{} of {} steps took more than twice the usual time", longer.size(), steps_),
         fmt::format("The longest, step {}, took {}; the median is {}.", longer.front()->step,
                     time_text(length(longer.front())), time_text(step_us_)),
         "Check what happens in them: checkpoints, validation, set-up in the first steps.",
         std::move(evidence)});
  }

  void add_notes() {
    if (report_.notes.empty()) return;
    std::string text;
    for (const std::string& note : report_.notes) text += (text.empty() ? "" : "; ") + note;
    add({"not-whole",
         Severity::low,
         "This trace is incomplete",
         text + ".",
         "The figures cover only what was recorded.",
         {}});
  }

  void add_nothing() {
    if (report_.fusion.batches == 0) {
      add({"no-communication",
           Severity::low,
           "This trace contains no communication",
           "It contains no collectives of Dabke, Horovod or a PyTorch profiler.",
           "Record one with dabkerun --timeline-filename trace.json.",
           {}});
      return;
    }
    add({"fine",
         Severity::low,
         "Nothing stands out",
         !exposed_us_ ? "This trace does not show how long the application waits for tensors."
         : report_.ranks.size() > 1 && !report_.names_last_rank()
             ? "The application hardly waits for tensors; this trace does not show which ranks are late."
             : "No rank delays the others, and the application hardly waits for tensors.",
         "",
         {}});
  }

  TraceReport& report_;
  double step_us_ = 0, mean_step_us_ = 0;
  std::size_t steps_ = 0;  // the steps that are counted
  std::optional<double> exposed_us_;
  std::optional<int> late_rank_;
  std::string unit_;
};

}  // namespace

void add_findings(TraceReport& report) { Findings(report).add_all(); }

std::string time_text(double us) {
  if (us < 1) return fmt::format("{:.0f} ns", us * 1e3);
  if (us < 100) return fmt::format("{:.1f} us", us);
  if (us < 1e3) return fmt::format("{:.0f} us", us);
  if (us < 100e3) return fmt::format("{:.1f} ms", us / 1e3);
  if (us < 1e6) return fmt::format("{:.0f} ms", us / 1e3);
  return fmt::format("{:.1f} s", us / 1e6);
}

}  // namespace dabke::timeline
