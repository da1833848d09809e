#include "benchmarks/perf/options.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "benchmarks/perf/measure/sizes.h"
#include "ops/registry.h"
#include "runtime/backend/backend.h"
#include "runtime/base/settings/config.h"

namespace dabke::perf {
namespace {

constexpr std::string_view kPeers[] = {"mpi", "gloo", "memcpy", "bound"};
constexpr int kMostRanks = 256;
constexpr double kIdleSeconds = 2;
constexpr std::int64_t kWarmUpSteps = 12;  // the runtime learns the batches of a step

constexpr char kDescription[] =
    "Measures Dabke's collectives beside those of MPI and Gloo and beside plain memory, all in one set of\n"
    "processes, taking turns. Starts its ranks itself; inside a job (dabkerun or mpirun -np 4 dabke-perf "
    "...)\n"
    "the job's ranks measure.";
constexpr char kExamples[] = R"(
Examples:
  dabke-perf allreduce -np 2 --raw                  backends alone, 8 B to 256 MB, against every peer
  dabke-perf allreduce -np 4 -b 1M -e 1M --json x.json
  dabke-perf allreduce -np 2 --latency              single calls of 8 bytes through the public API
  dabke-perf -np 2 --model resnet50                 a step's gradients against one flat tensor
  dabke-perf -np 2 --tensors 10000                  many small tensors in one step
  dabke-perf -np 2 --idle                           what a job costs that does nothing

The times are from the begin of the first rank to the end of the last one: the median of the runs, and their
range. algbw is bytes / time; busbw is that times 2(n-1)/n for allreduce, (n-1)/n for allgather, reducescatter
and alltoall. The bytes of allgather, reducescatter and alltoall are those of all ranks' parts together.
"/ shm" is a competitor's time divided by that of Dabke's shared-memory backend in the same run: the median
over the runs.
Exit code: 0; 1 when a job failed or a result was wrong; 2 for a wrong command line.
)";

/// The collectives that can be timed alone.
std::vector<CollectiveKind> collectives() {
  std::vector<CollectiveKind> kinds;
  for (int i = 0; i < kCollectiveCount; ++i) {
    const auto kind = static_cast<CollectiveKind>(i);
    if (moves_data(kind) || kind == CollectiveKind::barrier) kinds.push_back(kind);
  }
  return kinds;
}

/// The operations that a backend can be asked for, if they are defined for this dtype.
std::vector<ReduceOp> ops_of(DType dtype) {
  std::vector<ReduceOp> ops;
  for (const ReduceOp op : kReduceOps) {
    if (op != ReduceOp::average && op != ReduceOp::adasum && is_defined(op, dtype)) ops.push_back(op);
  }
  return ops;
}

template <class Value>
std::string names_of(const std::vector<Value>& values) {
  std::vector<std::string_view> names;
  for (const Value value : values) names.push_back(name_of(value));
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The options that CLI11 stores as text until all of them have been read.
struct Texts {
  std::string collective = "allreduce", begin, end, dtype = "float32", op = "sum", tensor_bytes = "1K";
  std::string backends = "all", peers = "all", mpi_threads = "multiple", check = "1";
  bool in_place = false, out_of_place = false, latency = false, idle = false;
};

void add_what(CLI::App& app, Options& options, Texts& texts) {
  app.add_option("collective", texts.collective, "One of " + names_of(collectives()))->capture_default_str();
  app.add_option("--np", options.ranks, "Ranks to start (also as -np)")->capture_default_str();
  app.add_option("-b,--min-bytes", texts.begin, "Smallest size (default 8)")->type_name("SIZE");
  app.add_option("-e,--max-bytes", texts.end, "Largest size (default 256M; with --latency that of -b)")
      ->type_name("SIZE");
  app.add_option("-f,--factor", options.factor, "From one size to the next")->capture_default_str();
  app.add_option("-d,--dtype", texts.dtype, "float32, bfloat16, int64, ...")->capture_default_str();
  app.add_option("-o,--op", texts.op, "One of " + names_of(ops_of(DType::i32)) + "; floats have no bits")
      ->capture_default_str();
  app.add_flag("--in-place", texts.in_place,
               "The result replaces the input (allreduce, broadcast; their default)");
  app.add_flag("--out-of-place", texts.out_of_place, "It does not; with both flags both are measured");
  app.add_option("--memory", options.memory, "private: memory as malloc gives it; dabke: from dabke_alloc")
      ->capture_default_str();
}

void add_modes(CLI::App& app, Options& options, Texts& texts) {
  app.add_flag("--raw", options.raw,
               "Call Dabke's backends directly, on the calling thread: no negotiation, no background threads")
      ->group("What is measured");
  app.add_flag("--latency", texts.latency, "Time each call by itself: median, 99th percentile, best")
      ->group("What is measured");
  app.add_option("--pause", options.pause_ms, "--latency: sleep so many ms before each call")
      ->capture_default_str()
      ->group("What is measured");
  app.add_flag("--idle", texts.idle,
               "CPU time and wake-ups of each rank after a call, while nothing is submitted")
      ->group("What is measured");
  app.add_option("--model", options.model,
                 "Steps of a model's gradients: resnet50, bert-large, gpt2, or a file of names and shapes")
      ->type_name("NAME|FILE")
      ->group("What is measured");
  app.add_option("--tensors", options.tensors, "Steps of so many equal tensors")->group("What is measured");
  app.add_flag("--timeline", options.timeline,
               "--model, --tensors: the same steps again while a timeline is written, to compare")
      ->group("What is measured");
  app.add_option("--tensor-bytes", texts.tensor_bytes, "Size of each of them")
      ->capture_default_str()
      ->type_name("SIZE")
      ->group("What is measured");
}

void add_competitors(CLI::App& app, Options& options, Texts& texts) {
  app.add_option("--backends", texts.backends,
                 fmt::format("Of Dabke, with commas: {}; or all, none; with --raw, shm-plain and "
                             "shm-streaming, too (DABKE_SHM_STORES)",
                             fmt::join(built_backends(), ", ")))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->type_name("LIST")
      ->group("Competitors");
  app.add_option(
         "--peers", texts.peers,
         "With commas: mpi and gloo, called directly; memcpy (one plain copy a rank); bound (each rank "
         "reads and writes its bytes in place once); or all, none")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->type_name("LIST")
      ->group("Competitors");
  app.add_option("--mpi", options.mpi, "mpich, openmpi, all that are installed (one job each), or none")
      ->capture_default_str()
      ->group("Competitors");
  app.add_option("--mpi-threads", texts.mpi_threads,
                 "Thread level of MPI: multiple, or single (Dabke's mpi backend is left out then)")
      ->capture_default_str()
      ->group("Competitors");
  app.add_option("--bind-to", options.bind_to, "core: each rank has one of its own; none")
      ->capture_default_str()
      ->group("Competitors");
}

void add_effort(CLI::App& app, Options& options, Texts& texts) {
  app.add_option("-n,--iterations", options.iterations, "Most calls in a run")
      ->capture_default_str()
      ->group("Effort");
  app.add_option("-w,--warm-up", options.warm_up, "Most calls before them")
      ->capture_default_str()
      ->group("Effort");
  app.add_option("--seconds", options.seconds,
                 "Time for one run of one competitor at one size; fewer calls when it is over. --idle: 2")
      ->capture_default_str()
      ->group("Effort");
  app.add_option("--runs", options.runs, "Runs of each competitor, taking turns")
      ->capture_default_str()
      ->group("Effort");
  app.add_option("-c,--check", texts.check, "1: compare results with arithmetic; 0: do not")
      ->capture_default_str()
      ->group("Effort");
  app.add_option("--json", options.json, "Write all that was seen to this file")
      ->type_name("FILE")
      ->group("Output");
  app.add_flag("-q,--quiet", options.quiet, "Say nothing of the progress on stderr")->group("Output");
  app.add_option("--rank-results", options.rank_results)->group("");
}

std::unique_ptr<CLI::App> make_app(Options& options, Texts& texts) {
  auto app = std::make_unique<CLI::App>(kDescription, "dabke-perf");
  app->get_formatter()->column_width(32);
  app->footer(kExamples);
  add_what(*app, options, texts);
  add_modes(*app, options, texts);
  add_competitors(*app, options, texts);
  add_effort(*app, options, texts);
  return app;
}

Status refused(std::string_view option, std::string_view value, std::string_view accepts) {
  return {Code::invalid_argument, fmt::format("{} is '{}', but must be {}", option, value, accepts)};
}

template <class Value>
Result<Value> one_of(std::string_view option, std::string_view text, const std::vector<Value>& values) {
  for (const Value value : values) {
    if (name_of(value) == text) return value;
  }
  return refused(option, text, "one of " + names_of(values));
}

Status check_word(std::string_view option, std::string_view text,
                  std::initializer_list<std::string_view> words) {
  if (std::ranges::count(words, text) != 0) return {};
  return refused(option, text, fmt::format("one of {}", fmt::join(words, ", ")));
}

template <class Number>
Status check_least(std::string_view option, Number value, Number least) {
  if (value >= least) return {};
  return refused(option, fmt::format("{}", value), fmt::format("at least {}", least));
}

Result<std::vector<std::string>> parse_list(std::string_view option, std::string_view text,
                                            const std::vector<std::string>& all) {
  std::vector<std::string> names;
  if (text == "all") return all;
  if (text == "none") return names;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    names.emplace_back(text.substr(begin, end - begin));
    if (std::ranges::count(all, names.back()) == 0) {
      return refused(option, text,
                     fmt::format("all, none, or with commas of {}; '{}' is not there", fmt::join(all, ", "),
                                 names.back()));
    }
    begin = end + 1;
  }
  return names;
}

Status read_sizes(Options& options, const Texts& texts) {
  if (options.mode == Mode::latency) options.end = options.begin;
  if (!texts.begin.empty()) {
    DABKE_ASSIGN_OR_RETURN(options.begin, parse_size(texts.begin, "-b"));
    if (options.mode == Mode::latency) options.end = options.begin;
  }
  if (!texts.end.empty()) {
    DABKE_ASSIGN_OR_RETURN(options.end, parse_size(texts.end, "-e"));
  }
  if (options.end < options.begin) {
    return {Code::invalid_argument,
            fmt::format(
                "-e is {} bytes and -b is {}, but the largest size cannot be below the smallest; swap them",
                options.end, options.begin)};
  }
  DABKE_RETURN_IF_ERROR(check_least<std::int64_t>("-f", options.factor, 2));
  DABKE_ASSIGN_OR_RETURN(options.tensor_bytes, parse_size(texts.tensor_bytes, "--tensor-bytes"));
  DABKE_ASSIGN_OR_RETURN(options.dtype, one_of<DType>("-d", texts.dtype, {kDTypes.begin(), kDTypes.end()}));
  DABKE_ASSIGN_OR_RETURN(options.op, one_of<ReduceOp>("-o", texts.op, ops_of(options.dtype)));
  return {};
}

Status read_places(Options& options, const Texts& texts) {
  const bool replaces = moves_data(options.kind) && !divides_rows(options.kind);
  if (texts.in_place && !replaces) {
    return {Code::invalid_argument,
            fmt::format("--in-place: the result of {} is not of the input's size; leave the flag out",
                        name_of(options.kind))};
  }
  if (texts.in_place || (replaces && !texts.out_of_place)) options.in_place.push_back(true);
  if (texts.out_of_place || !replaces) options.in_place.push_back(false);
  return {};
}

Status read_mode(Options& options, const Texts& texts) {
  const bool steps = !options.model.empty() || options.tensors != 0;
  if (texts.latency + texts.idle + !options.model.empty() + (options.tensors != 0) > 1) {
    return {Code::invalid_argument,
            "--latency, --idle, --model and --tensors are four ways to measure; choose one of them"};
  }
  options.mode = texts.latency ? Mode::latency : texts.idle ? Mode::idle : steps ? Mode::steps : Mode::sweep;
  DABKE_RETURN_IF_ERROR(check_least<std::int64_t>("--tensors", options.tensors, 0));
  if (options.raw && (steps || texts.idle)) {
    return {Code::invalid_argument,
            "--raw calls the backends one collective at a time, so it goes with neither --idle, --model nor "
            "--tensors; leave it out"};
  }
  if (options.timeline && !steps) {
    return {Code::invalid_argument,
            "--timeline compares steps with and without one; name them with --model or --tensors"};
  }
  return check_word("--memory", options.memory, {"private", "dabke"});
}

Status read_competitors(Options& options, const Texts& texts) {
  std::vector<std::string> backends = built_backends();
  if (options.raw && texts.backends != "all") backends.insert(backends.end(), {"shm-plain", "shm-streaming"});
  DABKE_ASSIGN_OR_RETURN(options.backends, parse_list("--backends", texts.backends, backends));
  DABKE_ASSIGN_OR_RETURN(options.peers,
                         parse_list("--peers", texts.peers, {std::begin(kPeers), std::end(kPeers)}));
  DABKE_RETURN_IF_ERROR(check_word("--mpi", options.mpi, {"mpich", "openmpi", "all", "none"}));
  DABKE_RETURN_IF_ERROR(check_word("--mpi-threads", texts.mpi_threads, {"multiple", "single"}));
  DABKE_RETURN_IF_ERROR(check_word("--bind-to", options.bind_to, {"core", "none"}));
  options.mpi_any_thread = texts.mpi_threads == "multiple";
  const auto drop = [](std::vector<std::string>& names, std::string_view name) { std::erase(names, name); };
  if (options.mpi == "none" || !options.mpi_any_thread) drop(options.backends, "mpi");
  if (options.mpi == "none") drop(options.peers, "mpi");
  // Both modes measure only the runtime. A job without MPI also idles without it.
  if (options.mode == Mode::steps || options.mode == Mode::idle) options.peers.clear();
  if (options.mode == Mode::idle && texts.backends == "all") drop(options.backends, "mpi");
  if (options.backends.empty() && options.peers.empty())
    return {Code::invalid_argument, "--backends and --peers leave nobody to measure; name at least one"};
  return {};
}

Status read(Options& options, const Texts& texts) {
  DABKE_ASSIGN_OR_RETURN(options.kind,
                         one_of<CollectiveKind>("the collective", texts.collective, collectives()));
  if (options.ranks < 1 || options.ranks > kMostRanks)
    return refused("-np", std::to_string(options.ranks), fmt::format("1 to {}", kMostRanks));
  DABKE_RETURN_IF_ERROR(read_mode(options, texts));
  DABKE_RETURN_IF_ERROR(read_sizes(options, texts));
  DABKE_RETURN_IF_ERROR(read_places(options, texts));
  DABKE_RETURN_IF_ERROR(read_competitors(options, texts));
  DABKE_RETURN_IF_ERROR(check_least<std::int64_t>("--iterations", options.iterations, 1));
  DABKE_RETURN_IF_ERROR(check_least<std::int64_t>("--warm-up", options.warm_up, 0));
  DABKE_RETURN_IF_ERROR(check_least("--runs", options.runs, 1));
  DABKE_RETURN_IF_ERROR(check_least("--seconds", options.seconds, 0.0));
  DABKE_RETURN_IF_ERROR(check_least("--pause", options.pause_ms, 0.0));
  DABKE_RETURN_IF_ERROR(check_word("-c", texts.check, {"0", "1"}));
  options.check = texts.check == "1";
  return {};
}

}  // namespace

bool Options::wants_backend(std::string_view name) const { return std::ranges::count(backends, name) != 0; }
bool Options::wants_peer(std::string_view name) const { return std::ranges::count(peers, name) != 0; }

std::vector<std::string> built_backends() {
  std::vector<std::string> names;
  const auto row = std::ranges::find(knobs(), std::string_view("CPU_OPERATIONS"), &Knob::env);
  for (std::string_view choices = row->range.choices; !choices.empty();) {
    const std::size_t comma = std::min(choices.find(','), choices.size());
    if (ops::is_backend_built(choices.substr(0, comma))) names.emplace_back(choices.substr(0, comma));
    choices.remove_prefix(std::min(comma + 1, choices.size()));
  }
  std::erase(names, "hierarchical");  // it works between hosts, and dabke-perf's ranks are on one
  return names;
}

Result<Options> parse_options(std::span<const std::string> arguments) {
  Options options;
  Texts texts;
  const auto app = make_app(options, texts);
  std::vector<std::string> words(arguments.begin(), arguments.end());
  for (std::string& word : words) {
    if (word == "-np") word = "--np";  // CLI11 would read -n p
  }
  std::ranges::reverse(words);  // CLI11 wants them in this order
  try {
    app->parse(words);
  } catch (const CLI::CallForHelp&) {
    options.help = true;
    return options;
  } catch (const CLI::ParseError& error) {
    return Status(Code::invalid_argument,
                  fmt::format("{}; dabke-perf --help shows what is accepted", error.what()));
  }
  options.ranks_given = app->count("--np") != 0;
  DABKE_RETURN_IF_ERROR(read(options, texts));
  if (options.mode == Mode::idle && app->count("--seconds") == 0) options.seconds = kIdleSeconds;
  if (options.mode == Mode::steps && app->count("--warm-up") == 0) options.warm_up = kWarmUpSteps;
  return options;
}

std::string help_text() {
  Options options;
  Texts texts;
  return make_app(options, texts)->help();
}

}  // namespace dabke::perf
