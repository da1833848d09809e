#include "timeline_viewer/trace_analysis.h"

#include <cmath>
#include <filesystem>

#include <fmt/format.h>

namespace dabke::timeline {
namespace {

/// All dialects listen; those that do not know what they hear tell nothing.
class AllDialects final : public EventSink {
 public:
  AllDialects(Analysis& analysis, TraceNames& names, std::size_t file) {
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

Result<TraceReport> report_of_traces(const std::vector<std::string>& paths,
                                     const std::function<void(std::uint64_t)>& on_progress) {
  TraceNames names;
  Analysis analysis([&names](std::size_t, NameKind, std::uint32_t number) { return names.name(number); });
  std::string source;
  for (std::size_t file = 0; file < paths.size(); ++file) {
    AllDialects dialects(analysis, names, file);
    DABKE_ASSIGN_OR_RETURN(const TraceDamage damage, read_events(paths[file], dialects, on_progress));
    if (damage.events == 0) {
      return Status(Code::invalid_argument,
                    fmt::format("'{}' has no event that could be read; record a trace with dabkerun "
                                "--timeline-filename trace.json",
                                paths[file]));
    }
    dialects.finish();
    for (std::string& note : damage.notes(paths[file])) analysis.note(std::move(note));
    source += (source.empty() ? "" : ", ") + std::filesystem::path(paths[file]).filename().string();
  }
  return analysis.report(std::move(source));
}

}  // namespace dabke::timeline
