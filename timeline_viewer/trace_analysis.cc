#include "timeline_viewer/trace_analysis.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace dabke::viewer {
namespace {

/// Hands the events to all dialects. A dialect ignores events that it does not recognise.
class AllDialects final : public EventSink {
 public:
  AllDialects(timeline::Analysis& analysis, TraceNames& names, DabkeTrace& trace, Profile& profile) {
    dialects_.push_back(merged_trace_dialect(analysis, names, trace));
    dialects_.push_back(horovod_dialect(analysis, names));
    dialects_.push_back(profiler_dialect(profile));
  }

  void event(const TraceEvent& event) override {
    for (const auto& dialect : dialects_) dialect->event(event);
  }
  void member(std::string_view key, std::string_view json) override {
    for (const auto& dialect : dialects_) dialect->member(key, json);
  }
  void finish() {
    for (const auto& dialect : dialects_) dialect->finish();
  }

 private:
  std::vector<std::unique_ptr<TraceDialect>> dialects_;
};

/// The traces cannot have one report.
struct Apart {
  Status why;
};

/// Returns one of the ranks from the `first`-th on that is also among those before it;
/// nothing if there is none.
std::optional<int> common_rank(const std::vector<int>& ranks, std::size_t first) {
  const auto before_end = ranks.begin() + static_cast<std::ptrdiff_t>(first);
  const auto found = std::find_first_of(before_end, ranks.end(), ranks.begin(), before_end);
  return found == ranks.end() ? std::nullopt : std::optional(*found);
}

using Read = std::variant<timeline::TraceReport, Apart>;

/// Joins the profiles with the trace of Dabke in the analysis, if there is one.
Status take_profiles(timeline::Analysis& analysis, const std::vector<DabkeTrace>& traces,
                     std::vector<Profile>& profiles, bool joins) {
  if (profiles.empty()) return {};
  prepare_profiles(profiles);
  if (traces.empty()) return add_profiles(analysis, profiles);
  if (!joins) return {Code::invalid_argument, "profiles have reports of their own beside the trace of Dabke"};
  if (traces.size() > 1) {
    return {
        Code::invalid_argument,
        fmt::format("'{}' and '{}' are both traces with batches; profiles can be joined with one of them. "
                    "Make one trace of all ranks with 'dabke-timeline merge'",
                    traces[0].path, traces[1].path)};
  }
  return join_profiles(analysis, traces.front(), profiles);
}

/// Returns the report, or the reason why the traces cannot have one. If `joins` is false, profiles are not
/// joined with a trace of Dabke.
Result<Read> read_traces(std::span<const std::string> paths, bool joins,
                         const std::function<void(std::uint64_t)>& on_progress) {
  TraceNames names;
  timeline::Analysis analysis(
      [&names](std::size_t, timeline::NameKind, std::uint32_t number) { return names.name(number); });
  if (joins && paths.size() > 1) analysis.keep_batches();
  std::string source;
  std::vector<DabkeTrace> traces;
  std::vector<Profile> profiles;
  for (const std::string& path : paths) {
    const std::size_t ranks_before = analysis.ranks().size();
    DabkeTrace trace{.path = path};
    Profile profile{.path = path};
    AllDialects dialects(analysis, names, trace, profile);
    DABKE_ASSIGN_OR_RETURN(const TraceDamage damage, read_events(path, dialects, on_progress));
    if (damage.events == 0) {
      return Status(
          Code::invalid_argument,
          fmt::format(
              "'{}' has no readable event; record a trace with dabkerun --timeline-filename trace.json",
              path));
    }
    dialects.finish();
    if (const auto rank = common_rank(analysis.ranks(), ranks_before))
      return Read(Apart{rank_is_common(path, *rank)});
    const bool has_ranks = analysis.ranks().size() > ranks_before;
    if (has_ranks) traces.push_back(std::move(trace));
    if (!has_ranks && !profile.is_empty()) profiles.push_back(std::move(profile));
    for (std::string& note : damage.notes(path)) analysis.note(std::move(note));
    source += (source.empty() ? "" : ", ") + std::filesystem::path(path).filename().string();
  }
  if (Status joined = take_profiles(analysis, traces, profiles, joins); !joined.is_ok())
    return Read(Apart{std::move(joined)});
  return Read(analysis.report(std::move(source)));
}

}  // namespace

std::uint32_t TraceNames::number_of(std::string_view name) {
  if (const auto known = numbers_.find(name); known != numbers_.end()) return known->second;
  const auto number = static_cast<std::uint32_t>(names_.size());
  names_.emplace_back(name);
  numbers_.emplace(name, number);
  return number;
}

std::optional<CollectiveKind> kind_of(std::string_view timeline_name) {
  for (std::size_t i = 0; i < kCollectiveCount; ++i) {
    const auto kind = static_cast<CollectiveKind>(i);
    if (timeline_name_of(kind) == timeline_name) return kind;
  }
  return {};
}

std::int64_t ns_of(double us) { return std::llround(us * 1e3); }

Result<timeline::TraceReport> report_of_traces(const std::vector<std::string>& paths,
                                               const std::function<void(std::uint64_t)>& on_progress) {
  DABKE_ASSIGN_OR_RETURN(auto read, read_traces(paths, true, on_progress));
  if (auto* const apart = std::get_if<Apart>(&read)) return std::move(apart->why);
  return std::get<timeline::TraceReport>(std::move(read));
}

Result<std::vector<timeline::TraceReport>> reports_of_traces(
    const std::vector<std::string>& paths, const std::function<void(std::uint64_t)>& on_progress) {
  DABKE_ASSIGN_OR_RETURN(auto all, read_traces(paths, false, on_progress));
  std::vector<timeline::TraceReport> reports;
  if (auto* const report = std::get_if<timeline::TraceReport>(&all)) {
    reports.push_back(std::move(*report));
    return reports;
  }
  for (const std::string& path : paths) {
    DABKE_ASSIGN_OR_RETURN(auto one, read_traces(std::span(&path, 1), false, {}));
    reports.push_back(std::get<timeline::TraceReport>(std::move(one)));
  }
  return reports;
}

}  // namespace dabke::viewer
