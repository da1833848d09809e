#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "timeline_viewer/trace_analysis.h"

namespace dabke::viewer {
namespace {

constexpr std::string_view kStep = "ProfilerStep#";
constexpr std::string_view kOptimizer = "Optimizer.step#";

bool is_communication(std::string_view name) {
  constexpr auto kBegins = std::to_array<std::string_view>(
      {"nccl:", "gloo:", "mpi:", "ucc:", "dabke:", "ncclKernel", "ncclDevKernel", "ncclAllReduce"});
  for (const std::string_view begin : kBegins) {
    if (name.starts_with(begin)) return true;
  }
  return false;
}

/// Compares communication with computation: that of the GPU if there are communication kernels, else that
/// of the CPU's operations.
class ProfilerDialect final : public TraceDialect {
 public:
  ProfilerDialect(timeline::Analysis& analysis, std::size_t file)
      : analysis_(analysis), rank_(static_cast<int>(file)) {}

  void event(const TraceEvent& event) override {
    if (event.phase != 'X' || !event.start_us) return;
    if (!zero_us_) zero_us_ = *event.start_us;
    const std::int64_t begin_ns = ns_of(*event.start_us - *zero_us_);
    const timeline::Interval when{begin_ns, begin_ns + ns_of(event.duration_us.value_or(0))};
    if (event.name.starts_with(kStep) && event.category == "user_annotation") return step(event.name, when);
    if (event.name.starts_with(kOptimizer) && event.category == "user_annotation")
      updates_[std::string(event.name)].push_back(when.end_ns);
    const bool is_kernel = event.category == "kernel";
    if (is_communication(event.name)) {
      // A collective of a GPU appears twice. The CPU's annotation covers only its launch.
      (is_kernel ? kernels_ : calls_).push_back({event.name, when});
    } else if (is_kernel) {
      gpu_.push_back(when);
    } else if (event.category == "cpu_op" && !event.name.starts_with("c10d::")) {
      cpu_.push_back(when);
    }
  }

  void member(std::string_view key, std::string_view json) override {
    if (key != "distributedInfo") return;
    const auto facts = nlohmann::json::parse(json.begin(), json.end(), nullptr, false);
    if (!facts.is_object() || !facts.contains("rank") || !facts["rank"].is_number_unsigned()) return;
    rank_ = static_cast<int>(std::min<std::uint64_t>(facts["rank"].get<std::uint64_t>(), 1 << 20));
  }

  void finish() override {
    const bool on_gpu = !kernels_.empty();
    const auto& calls = on_gpu ? kernels_ : calls_;
    if (calls.empty()) return;
    const std::size_t rank = analysis_.add_rank(rank_);
    for (const auto& [name, when] : calls) analysis_.communication(rank, name, 0, when);
    for (const timeline::Interval& when : on_gpu ? gpu_ : cpu_) analysis_.computation(rank, when);
    if (steps_.empty()) take_updates();
    for (const auto& [number, when] : steps_) analysis_.whole_step(rank, number, when);
  }

 private:
  void step(std::string_view name, const timeline::Interval& when) {
    name.remove_prefix(kStep.size());
    std::uint64_t number = 0;
    (void)std::from_chars(name.data(), name.data() + name.size(), number);
    steps_.emplace_back(number, when);
  }

  /// If a profile marks no steps, those of the optimizer are used. If there are several optimizers, the one
  /// with the fewest steps counts.
  void take_updates() {
    const auto rarest =
        std::ranges::min_element(updates_, {}, [](const auto& one) { return one.second.size(); });
    if (rarest == updates_.end()) return;
    std::vector<std::int64_t>& ends_ns = rarest->second;
    std::ranges::sort(ends_ns);
    for (std::size_t i = 0; i + 1 < ends_ns.size(); ++i)
      steps_.emplace_back(i + 1, timeline::Interval{ends_ns[i], ends_ns[i + 1]});
  }

  timeline::Analysis& analysis_;
  int rank_;
  // Times are those of a clock, and need more digits than their differences.
  std::optional<double> zero_us_;
  std::vector<std::pair<std::string, timeline::Interval>> kernels_, calls_;
  timeline::Intervals gpu_, cpu_;
  std::vector<std::pair<std::uint64_t, timeline::Interval>> steps_;
  std::map<std::string, std::vector<std::int64_t>> updates_;  // the ends of an optimizer's steps, by its name
};

}  // namespace

std::unique_ptr<TraceDialect> profiler_dialect(timeline::Analysis& analysis, std::size_t file) {
  return std::make_unique<ProfilerDialect>(analysis, file);
}

}  // namespace dabke::viewer
