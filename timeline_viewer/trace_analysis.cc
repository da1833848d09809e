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
  AllDialects(timeline::Analysis& analysis, TraceNames& names, std::size_t file) {
    dialects_.push_back(merged_trace_dialect(analysis, names));
    dialects_.push_back(horovod_dialect(analysis, names));
    dialects_.push_back(profiler_dialect(analysis, file));
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

/// A rank that a trace has in common with the traces before it.
struct CommonRank {
  std::size_t trace = 0;
  int rank = 0;
};

/// Returns one of the ranks from the `first`-th on that is also among those before it;
/// nothing if there is none.
std::optional<int> common_rank(const std::vector<int>& ranks, std::size_t first) {
  const auto before_end = ranks.begin() + static_cast<std::ptrdiff_t>(first);
  const auto found = std::find_first_of(before_end, ranks.end(), ranks.begin(), before_end);
  return found == ranks.end() ? std::nullopt : std::optional(*found);
}

using Read = std::variant<timeline::TraceReport, CommonRank>;

/// Returns the report. If a trace is of another job than those before it, returns the
/// first such trace instead.
Result<Read> read_traces(std::span<const std::string> paths,
                         const std::function<void(std::uint64_t)>& on_progress) {
  TraceNames names;
  timeline::Analysis analysis(
      [&names](std::size_t, timeline::NameKind, std::uint32_t number) { return names.name(number); });
  std::string source;
  for (std::size_t file = 0; file < paths.size(); ++file) {
    const std::size_t ranks_before = analysis.ranks().size();
    AllDialects dialects(analysis, names, file);
    DABKE_ASSIGN_OR_RETURN(const TraceDamage damage, read_events(paths[file], dialects, on_progress));
    if (damage.events == 0) {
      return Status(
          Code::invalid_argument,
          fmt::format(
              "'{}' has no readable event; record a trace with dabkerun --timeline-filename trace.json",
              paths[file]));
    }
    dialects.finish();
    if (const auto rank = common_rank(analysis.ranks(), ranks_before)) return Read(CommonRank{file, *rank});
    for (std::string& note : damage.notes(paths[file])) analysis.note(std::move(note));
    source += (source.empty() ? "" : ", ") + std::filesystem::path(paths[file]).filename().string();
  }
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
  DABKE_ASSIGN_OR_RETURN(auto read, read_traces(paths, on_progress));
  if (const auto* const common = std::get_if<CommonRank>(&read)) {
    return Status(Code::invalid_argument,
                  fmt::format("'{}' has rank {}, as an earlier trace has: they belong to different jobs. For "
                              "one report, give traces of different ranks of one job; dabke-timeline diff "
                              "compares jobs, and dabke-timeline view shows them side by side",
                              paths[common->trace], common->rank));
  }
  return std::get<timeline::TraceReport>(std::move(read));
}

Result<std::vector<timeline::TraceReport>> reports_of_traces(
    const std::vector<std::string>& paths, const std::function<void(std::uint64_t)>& on_progress) {
  DABKE_ASSIGN_OR_RETURN(auto all, read_traces(paths, on_progress));
  std::vector<timeline::TraceReport> reports;
  if (auto* const report = std::get_if<timeline::TraceReport>(&all)) {
    reports.push_back(std::move(*report));
    return reports;
  }
  for (const std::string& path : paths) {
    DABKE_ASSIGN_OR_RETURN(auto one, read_traces(std::span(&path, 1), {}));
    reports.push_back(std::get<timeline::TraceReport>(std::move(one)));
  }
  return reports;
}

}  // namespace dabke::viewer
