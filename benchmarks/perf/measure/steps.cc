#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "benchmarks/gradient_model.h"
#include "benchmarks/perf/competitors/check.h"
#include "benchmarks/perf/competitors/dabke_api.h"
#include "benchmarks/perf/jobs/places.h"
#include "benchmarks/perf/measure/measure.h"

namespace dabke::perf {
namespace {

constexpr std::int64_t kLeastSteps = 5;
constexpr std::int64_t kAlignment = 64;

struct Tensor {
  std::string name;
  std::int64_t elements;
  Call call;  // in place
  DLTensor view{};
};

/// The tensors of a step in one piece of memory, in the order of their submission.
struct Step {
  std::string name;
  std::int64_t elements = 0;
  std::vector<Tensor> tensors;
  Memory memory;
};

Result<std::vector<Tensor>> tensors_of(const Options& options) {
  std::vector<Tensor> tensors;
  const auto width = static_cast<std::int64_t>(size_of(options.dtype));
  for (std::int64_t i = 0; i < options.tensors; ++i)
    tensors.push_back(
        {fmt::format("tensor.{}", i), std::max<std::int64_t>(options.tensor_bytes / width, 1), {}});
  if (options.model.empty()) return tensors;
  DABKE_ASSIGN_OR_RETURN(const std::string path, model_path(options.model));
  for (const auto& gradient : read_model(path))
    tensors.push_back({gradient.name, static_cast<std::int64_t>(gradient.elements), {}});
  if (!tensors.empty()) return tensors;
  return Status(Code::invalid_argument,
                fmt::format("--model {}: no line of '{}' is a name and a shape", options.model, path));
}

Result<Step> make_step(const Bench& bench) {
  const Options& options = bench.options;
  Step step;
  step.name = options.model.empty() ? "equal" : std::filesystem::path(options.model).stem().string();
  DABKE_ASSIGN_OR_RETURN(step.tensors, tensors_of(options));
  const auto width = static_cast<std::int64_t>(size_of(options.dtype));
  const auto padded = [&](const Tensor& tensor) {
    return (tensor.elements * width + kAlignment - 1) / kAlignment * kAlignment;
  };
  std::int64_t bytes = 0;
  for (const Tensor& tensor : step.tensors) bytes += padded(tensor);
  DABKE_ASSIGN_OR_RETURN(step.memory, Memory::make(bench, bytes));
  std::byte* at = step.memory.data();
  for (Tensor& tensor : step.tensors) {
    step.elements += tensor.elements;
    tensor.call = call_of(CollectiveKind::allreduce, options.dtype, ReduceOp::sum, bench.team.rank(),
                          bench.team.size(), tensor.elements * width);
    tensor.call.input = tensor.call.output = at;
    tensor.view = api_tensor(options.dtype, at, tensor.elements);
    at += padded(tensor);
  }
  return step;
}

/// Submits everything, then waits for everything.
Status run_step(const Step& step, std::vector<dabke_handle*>& handles) {
  dabke_options options = DABKE_OPTIONS_INIT;
  options.op = DABKE_SUM;
  Status status;
  for (const Tensor& tensor : step.tensors) {
    dabke_handle* handle = nullptr;
    status = api_status(dabke_allreduce_async(tensor.name.c_str(), &tensor.view, nullptr, &options, &handle));
    if (!status.is_ok()) break;
    handles.push_back(handle);
  }
  for (dabke_handle* const handle : handles) {
    if (dabke_wait(handle, -1) != DABKE_OK && status.is_ok())
      status = {static_cast<Code>(dabke_handle_status(handle)), dabke_handle_message(handle)};
    dabke_handle_free(handle);
  }
  handles.clear();
  return status;
}

/// The step as a competitor of one tensor with the same bytes.
class StepRun final : public Competitor {
 public:
  explicit StepRun(const Step& step) : step_(step) { handles_.reserve(step.tensors.size()); }
  std::string name() const override { return step_.name; }
  bool can_run(const Call&) const override { return true; }
  Status begin(const Call&) override { return {}; }
  Status run() override { return run_step(step_, handles_); }
  void end() override {}

 private:
  const Step& step_;
  std::vector<dabke_handle*> handles_;
};

/// The median over some steps, by the slowest rank.
Result<double> median_time(Bench& bench, Competitor& competitor, std::int64_t& steps) {
  for (std::int64_t i = 0; i < std::max<std::int64_t>(bench.options.warm_up, 1); ++i)
    DABKE_RETURN_IF_ERROR(competitor.run());
  if (steps == 0) {
    DABKE_ASSIGN_OR_RETURN(steps, calls_for(competitor, bench.team, bench.options));
    steps = std::min(std::max(steps, kLeastSteps), bench.options.iterations);
  }
  std::vector<double> times;
  for (std::int64_t i = 0; i < steps; ++i) {
    DABKE_ASSIGN_OR_RETURN(const double us, time_calls(competitor, bench.team, 1, 0));
    times.push_back(us);
  }
  return median(std::move(times));
}

Result<std::int64_t> check_step(Bench& bench, const Step& step, Competitor& competitor) {
  for (const Tensor& tensor : step.tensors) fill_for_check(tensor.call, 1);
  bench.team.barrier();
  DABKE_RETURN_IF_ERROR(competitor.run());
  std::int64_t wrong = 0;
  for (const Tensor& tensor : step.tensors) wrong += count_wrong(tensor.call, 1);
  return static_cast<std::int64_t>(bench.team.sum(static_cast<double>(wrong)));
}

/// The core time so far of the thread that writes this rank's timeline.
double writer_seconds() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    double ns = 0;
    if (std::getline(std::ifstream(task.path() / "comm"), name) && name == "dabke-timeline" &&
        std::ifstream(task.path() / "schedstat") >> ns)
      return ns * 1e-9;
  }
  return 0;
}

struct Traced {
  double us = 0;              // of a step
  double writer_percent = 0;  // of a core while the steps ran, on the rank with the most
};

/// Runs the same steps while every rank records a timeline. Rank 0 starts and stops it for all.
Result<Traced> time_with_timeline(Bench& bench, StepRun& steps, std::int64_t count) {
  const std::string path = fmt::format("/tmp/dabke-perf-timeline-{}.json", ::getpid());
  const bool is_root = dabke_rank() == 0;
  if (is_root) DABKE_RETURN_IF_ERROR(api_status(dabke_start_timeline(path.c_str(), 0)));
  const auto begin = Clock::now();
  const auto us = median_time(bench, steps, count);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const double writer_percent = us ? bench.team.max(100 * writer_seconds() / seconds) : 0;
  const Status stopped = is_root ? api_status(dabke_stop_timeline()) : Status();
  ::unlink(path.c_str());
  for (int rank = 0; is_root && rank < dabke_size(); ++rank)
    ::unlink(fmt::format("{}.rank{}", path, rank).c_str());
  DABKE_RETURN_IF_ERROR(stopped);
  if (!us) return us.status();
  return Traced{*us, writer_percent};
}

/// Uses one init for the step and one for the flat tensor, so that neither
/// teaches the runtime the other's batches.
Status run_once(Bench& bench, const Step& step, const std::string& backend, Competitor& flat,
                const Call& flat_call, Row& row) {
  {
    DABKE_ASSIGN_OR_RETURN(const auto session, ApiSession::open(backend));
    StepRun steps(step);
    for (const Tensor& tensor : step.tensors) fill_with_neutral(tensor.call);
    DABKE_ASSIGN_OR_RETURN(const double us, median_time(bench, steps, row.iterations));
    row.times_us.push_back(us);
    if (bench.options.timeline) {
      DABKE_ASSIGN_OR_RETURN(const Traced traced, time_with_timeline(bench, steps, row.iterations));
      row.more["timeline_us"].push_back(traced.us);
      row.more["timeline_writer_percent"].push_back(traced.writer_percent);
    }
    if (bench.options.check) {
      DABKE_ASSIGN_OR_RETURN(const std::int64_t wrong, check_step(bench, step, steps));
      row.wrong = std::max<std::int64_t>(row.wrong, 0) + wrong;
    }
    bench.team.barrier();
  }
  fill_with_neutral(flat_call);
  DABKE_RETURN_IF_ERROR(flat.begin(flat_call));
  DABKE_ASSIGN_OR_RETURN(const double us, median_time(bench, flat, row.iterations));
  row.more["flat_us"].push_back(us);
  flat.end();
  return {};
}

}  // namespace

Result<std::vector<Row>> run_steps(Bench& bench) {
  DABKE_ASSIGN_OR_RETURN(const Step step, make_step(bench));
  Call flat =
      call_of(CollectiveKind::allreduce, bench.options.dtype, ReduceOp::sum, bench.team.rank(),
              bench.team.size(), step.elements * static_cast<std::int64_t>(size_of(bench.options.dtype)));
  flat.input = flat.output = step.memory.data();
  std::vector<Row> rows;
  for (const auto& competitor : bench.competitors) {
    rows.push_back(row_of(bench, *competitor, flat));
    rows.back().mode = "steps";
    rows.back().collective = step.name;
    rows.back().count = static_cast<std::int64_t>(step.tensors.size());
  }
  for (int run = 0; run < bench.options.runs; ++run) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      bench.say(fmt::format("{} over {}, run {} of {}", step.name, rows[i].competitor, run + 1,
                            bench.options.runs));
      DABKE_RETURN_IF_ERROR(
          run_once(bench, step, bench.options.backends[i], *bench.competitors[i], flat, rows[i]));
    }
  }
  return rows;
}

}  // namespace dabke::perf
