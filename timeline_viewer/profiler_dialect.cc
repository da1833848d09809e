#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/timeline/event_names.h"
#include "timeline_viewer/trace_analysis.h"

namespace dabke::viewer {
namespace {

constexpr std::string_view kStep = "ProfilerStep#";
constexpr std::string_view kOptimizer = "Optimizer.step#";
constexpr std::string_view kParameters = "c10d::dabke_param_comms";
constexpr std::string_view kTorchParameters = "record_param_comms";

bool is_communication(std::string_view name) {
  constexpr auto kBegins = std::to_array<std::string_view>(
      {"nccl:", "gloo:", "mpi:", "ucc:", "dabke:", "ncclKernel", "ncclDevKernel", "ncclAllReduce"});
  for (const std::string_view begin : kBegins) {
    if (name.starts_with(begin)) return true;
  }
  return false;
}

/// Returns the size of an element with the name that PyTorch gives its type; 0 for an unknown name.
std::uint64_t item_bytes(std::string_view dtype) {
  constexpr auto kSizes = std::to_array<std::pair<std::string_view, std::uint64_t>>({{"Bool", 1},
                                                                                     {"Byte", 1},
                                                                                     {"Char", 1},
                                                                                     {"Short", 2},
                                                                                     {"UInt16", 2},
                                                                                     {"Half", 2},
                                                                                     {"Int", 4},
                                                                                     {"BFloat16", 2},
                                                                                     {"UInt32", 4},
                                                                                     {"Float", 4},
                                                                                     {"ComplexHalf", 4},
                                                                                     {"Long", 8},
                                                                                     {"UInt64", 8},
                                                                                     {"Double", 8},
                                                                                     {"ComplexFloat", 8},
                                                                                     {"ComplexDouble", 16}});
  for (const auto& [name, size] : kSizes) {
    if (name == dtype) return size;
  }
  return dtype.starts_with("Float8") ? 1 : 0;
}

/// Returns the bytes of a call from the arguments that PyTorch gives the calls of NCCL; 0 without them.
/// A call that only receives has the bytes of its output.
std::uint64_t bytes_of(const TraceEvent& event) {
  const auto positive = [&](std::string_view argument) {
    const double number = event.number(argument).value_or(0);
    return number > 0 && number < 1e18 ? static_cast<std::uint64_t>(number) : 0;
  };
  const std::uint64_t in = positive("In msg nelems"), out = positive("Out msg nelems");
  return (in > 0 ? in : out) * item_bytes(event.text("dtype"));
}

/// Takes as computation the kernels of the GPU if there are any, else the operations of the CPU.
class ProfilerDialect final : public TraceDialect {
 public:
  explicit ProfilerDialect(Profile& profile) : profile_(profile) {}

  void event(const TraceEvent& event) override {
    if (event.phase != 'X' || !event.start_us || event.category.empty()) return;
    if (!zero_us_) zero_us_ = *event.start_us;
    const double since_us = *event.start_us - *zero_us_;
    if (std::abs(since_us) > kLongestUs || event.duration_us.value_or(0) > kLongestUs) return;
    const std::int64_t begin_ns = ns_of(since_us);
    const timeline::Interval when{begin_ns, begin_ns + ns_of(event.duration_us.value_or(0))};
    profile_.covered = {std::min(profile_.covered.begin_ns, when.begin_ns),
                        std::max(profile_.covered.end_ns, when.end_ns)};
    if (event.name.starts_with(kStep) && event.category == "user_annotation") return step(event.name, when);
    if (event.name.starts_with(kOptimizer) && event.category == "user_annotation")
      updates_[std::string(event.name)].push_back(when.end_ns);
    const bool is_kernel = event.category == "kernel";
    if (event.name == kParameters || event.name == kTorchParameters) {
      parameters_.push_back({event.thread, when, bytes_of(event), event.name == kTorchParameters});
    } else if (is_communication(event.name)) {
      // A collective of a GPU appears twice. The CPU's annotation covers only its launch.
      const bool has_end = event.number("finished").value_or(1) != 0;
      (is_kernel ? kernels_ : calls_).push_back({event.name, event.thread, when, bytes_of(event), has_end});
    } else if (is_kernel) {
      gpu_.push_back(when);
    } else if (event.category == "cpu_op" && !event.name.starts_with("c10d::")) {
      cpu_.push_back(when);
    }
  }

  void member(std::string_view key, std::string_view json) override {
    const auto value = nlohmann::json::parse(json.begin(), json.end(), nullptr, false);
    if (key == timeline::kBaseTime && value.is_number_unsigned())
      base_time_ns_ =
          static_cast<std::int64_t>(std::min<std::uint64_t>(value.get<std::uint64_t>(), kLastTime));
    if (key != "distributedInfo" || !value.is_object()) return;
    const auto count = [&](const char* name) -> std::optional<int> {
      const auto found = value.find(name);
      if (found == value.end() || !found->is_number_unsigned()) return {};
      return static_cast<int>(std::min<std::uint64_t>(found->get<std::uint64_t>(), 1 << 20));
    };
    profile_.rank = count("rank");
    profile_.size = count("world_size");
  }

  void finish() override {
    const bool on_gpu = !kernels_.empty();
    take_parameters();
    profile_.calls = std::move(on_gpu ? kernels_ : calls_);
    profile_.computing = std::move(on_gpu || !gpu_.empty() ? gpu_ : cpu_);
    if (zero_us_) profile_.day_time_ns = day_time_ns(*zero_us_);
    if (steps_.empty()) take_updates();
    profile_.steps = std::move(steps_);
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

  /// Gives each call the bytes of its parameters. The event with the parameters of a call to Dabke follows
  /// the begin of the call on its thread. PyTorch's own event encloses the begin.
  void take_parameters() {
    std::map<std::string, std::vector<Profile::Call*>, std::less<>> by_thread;
    for (Profile::Call& call : calls_) by_thread[call.thread].push_back(&call);
    const auto begin_of = [](const Profile::Call* call) { return call->when.begin_ns; };
    for (auto& [thread, calls] : by_thread) std::ranges::stable_sort(calls, {}, begin_of);
    for (const Parameters& one : parameters_) {
      auto& calls = by_thread[one.thread];
      if (one.encloses) {
        const auto call = std::ranges::lower_bound(calls, one.when.begin_ns, {}, begin_of);
        if (call != calls.end() && (*call)->when.begin_ns <= one.when.end_ns) (*call)->bytes = one.bytes;
      } else if (const auto after = std::ranges::upper_bound(calls, one.when.begin_ns, {}, begin_of);
                 after != calls.begin()) {
        (*std::prev(after))->bytes = one.bytes;
      }
    }
  }

  /// Returns the time of day at a time of the trace. Older versions of PyTorch write the time of day itself,
  /// and versions without Kineto count from the begin of the profile.
  std::optional<std::int64_t> day_time_ns(double us) const {
    constexpr double kEarliestUs = 1e15;  // in 2001
    const std::int64_t ns = ns_of(us);
    std::int64_t time_ns = 0;
    if (!base_time_ns_) return us > kEarliestUs && ns <= kLastTime ? std::optional(ns) : std::nullopt;
    if (__builtin_add_overflow(*base_time_ns_, ns, &time_ns)) return {};
    return time_ns >= 0 && time_ns <= kLastTime ? std::optional(time_ns) : std::nullopt;
  }

  struct Parameters {
    std::string thread;
    timeline::Interval when;
    std::uint64_t bytes = 0;
    bool encloses = false;
  };

  static constexpr std::int64_t kLastTime = std::int64_t{1} << 62;
  static constexpr double kLongestUs = 1e14;  // three years; an event farther from the first one is not real

  Profile& profile_;
  // Times are those of a clock, and need more digits than their differences.
  std::optional<double> zero_us_;
  std::optional<std::int64_t> base_time_ns_;
  std::vector<Profile::Call> kernels_, calls_;
  std::vector<Parameters> parameters_;
  timeline::Intervals gpu_, cpu_;
  std::vector<std::pair<std::uint64_t, timeline::Interval>> steps_;
  std::map<std::string, std::vector<std::int64_t>> updates_;  // the ends of an optimizer's steps, by its name
};

}  // namespace

std::unique_ptr<TraceDialect> profiler_dialect(Profile& profile) {
  return std::make_unique<ProfilerDialect>(profile);
}

}  // namespace dabke::viewer
