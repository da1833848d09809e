#include "runtime/base/settings/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "build_parts.h"
#include "runtime/base/text/step_range.h"
#include "runtime/base/threads/dump_signals.h"

namespace dabke {
namespace {

constexpr Range any() { return {}; }
constexpr Range at_least(double least) { return {.least = least}; }
constexpr Range between(double least, double most) { return {.least = least, .most = most}; }
constexpr Range one_of(std::string_view choices) { return {.choices = choices}; }
/// A member of an enumeration type, whose values have these names.
template <auto member>
constexpr ChoiceField choice(std::string_view names) {
  using Value = std::remove_cvref_t<decltype(std::declval<Config&>().*member)>;
  return {names, [](const Config& config) { return static_cast<std::uint8_t>(config.*member); },
          [](Config& config, std::uint8_t value) { config.*member = static_cast<Value>(value); }};
}
constexpr Range dump_signal_or_none() {
  return {.takes = [](std::string_view text) { return text.empty() || dump_signal_number(text) != 0; },
          .taken = kDumpSignals};
}
constexpr Range steps_or_none() {
  return {.takes = [](std::string_view text) { return text.empty() || step_range(text).has_value(); },
          .taken = "FIRST:LAST, such as 100:110"};
}
constexpr Range top_or_none() {
  return {.takes =
              [](std::string_view text) {
                unsigned port = 0;
                const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
                return text.empty() || text == "launcher" ||
                       (error == std::errc() && end == text.data() + text.size() && port < 65536);
              },
          .taken = "a port (0 for any), or launcher"};
}

// clang-format off
constexpr Knob kKnobs[] = {
    {"FUSION_THRESHOLD", "FUSION_THRESHOLD", "fusion-threshold-mb",
     1 << 20, &Config::fusion_threshold, at_least(0), "bytes",
     "Set the size of the largest fusion buffer. Small tensors are packed into it and travel as one. 0 "
     "turns fusion off."},
    {"CYCLE_TIME", "CYCLE_TIME", "cycle-time-ms", 1, &Config::cycle_time, at_least(0), "ms",
     "Wait at most this long for more tensors to fuse. 0 adapts: no wait while the network is idle, a "
     "short one while it is busy."},
    {"DISABLE_GROUP_FUSION", "DISABLE_GROUP_FUSION", "disable-group-fusion",
     1, &Config::disable_group_fusion, any(), "",
     "Keep the tensors of a group out of batches with tensors outside it."},
    {"CACHE_CAPACITY", "CACHE_CAPACITY", "cache-capacity",
     1, &Config::cache_capacity, between(0, kLargestCache), "tensors",
     "Set how many tensors the response cache holds. A tensor in it is negotiated by its number alone. 0 "
     "turns the cache off."},
    {"DISABLE_LEARNED_BATCHES", "", "no-learned-batches", 1, &Config::disable_learned_batches, any(), "",
     "Turn off batch learning (fusing tensors that become ready together in every step)."},
    {"HIERARCHICAL_ALLREDUCE", "HIERARCHICAL_ALLREDUCE", "hierarchical-allreduce",
     1, &Config::hierarchical_allreduce, any(), "",
     "No effect, accepted for Horovod: hierarchical reduction is always used."},
    {"HIERARCHICAL_ALLGATHER", "HIERARCHICAL_ALLGATHER", "hierarchical-allgather",
     1, &Config::hierarchical_allgather, any(), "",
     "No effect, accepted for Horovod: hierarchical gathering is always used when hosts have equal numbers "
     "of ranks."},
    {"DETERMINISTIC", "", "deterministic", 1, &Config::deterministic, any(), "",
     "Build batches from names and sizes alone, so that runs repeat bit for bit on every backend."},
    {"DUPLICATE_NAMES", "", "duplicate-names", 1, choice<&Config::duplicate_names>("queue,error"), any(), "",
     "Choose what happens to a name that is submitted while it is still pending. queue: it runs after the "
     "first. error: it fails, as in Horovod."},
    {"JOIN", "", "join", 1, choice<&Config::join>("dabke,horovod"), any(), "",
     "Choose how ranks that called join() count in collectives of the others. dabke: an average counts "
     "only ranks that have not joined, and a joined rank adds no rows. horovod: an average divides by the "
     "size of the process set; allgather, broadcast, alltoall and reducescatter fail. The value of rank 0 "
     "applies."},
    {"CONTROLLER", "CONTROLLER", "controller",
     1, choice<&Config::controller>("auto,shm,tcp,mpi,gloo"), any(), "",
     "Choose what carries the negotiation. auto: shared memory within a host, TCP between hosts. shm: "
     "shared memory, or an error where it cannot be used. mpi: MPI; it must have started the job, with "
     "MPI_THREAD_MULTIPLE. gloo: Horovod's name for tcp."},
    {"TREE_RADIX", "", "tree-radix", 1, &Config::tree_radix, between(0, 1024), "children",
     "Set how many hosts report to one host when requests travel to rank 0 along a tree. 0: every rank "
     "reports to rank 0 directly."},
    {"PROCESS_SETS", "", "process-sets", 1, &Config::process_sets, any(), "",
     "Define process sets that exist from the start, with the ids 1, 2, and so on. Separate ranks by "
     "commas and sets by semicolons: 0,1;2,3."},
    {"CPU_OPERATIONS", "CPU_OPERATIONS", "cpu-operations",
     1, &Config::cpu_operations, one_of(kCpuOperations), "",
     "Choose the backend that moves host tensors. auto: shm where all ranks of a process set share "
     "memory; hierarchical where several hosts have several ranks; else tcp. tcp: our TCP links for small "
     "tensors, Gloo for large ones. mpi: MPI, with shared memory inside each host when there are several."},
    {"SHM_STORES", "", "shm-stores", 1, choice<&Config::shm_stores>("auto,plain,streaming"), any(), "",
     "Choose how ranks of one host write data of 64 KB and more for each other. plain: through the "
     "caches, best when their cores are near. streaming: past the caches, best when the cores are far "
     "apart. auto: the faster of both, measured while they work. Results do not differ."},
    {"GPU_OPERATIONS", "", "gpu-operations", 1, &Config::gpu_operations, one_of(kGpuOperationNames), "",
     "Choose what moves tensors on CUDA devices; give all ranks the same value. nccl: NCCL. hierarchical: "
     "NCCL within each host, the backend of host tensors between hosts. host: copy to the host, move "
     "there, copy back. mpi, gloo: as host, with that backend; a CUDA-aware MPI reads device memory in "
     "allreduce and broadcast."},
    {"MPI_CUDA_AWARE", "", "mpi-cuda-aware", 1, choice<&Config::mpi_cuda_aware>("auto,yes,no"), any(), "",
     "State whether MPI may read the memory of CUDA devices, with GPU_OPERATIONS=mpi; give all ranks the "
     "same value. auto: ask MPI (MPIX_Query_cuda_support); no if it cannot be asked. A wrong yes crashes "
     "inside MPI."},
    {"COMPRESSION", "", "compression", 1, choice<&Config::compression>("none,float16,bfloat16"), any(), "",
     "Choose the format in which float32 elements of an allreduce travel between hosts, unless the call "
     "names one. float16 and bfloat16 halve the bytes and lose digits. Sums are computed in float32 and "
     "rounded once more at the end; NCCL sums in its own way. Within a host, and for other collectives "
     "and dtypes, nothing changes."},
    {"NETWORK_INTERFACE", "GLOO_IFACE", "network-interfaces", 1, &Config::network_interface, any(), "",
     "Choose the networks that ranks use: a comma-separated list of interfaces, addresses and networks, "
     "such as eth0,10.1.0.0/16. eth: every interface whose name begins with it. =eth0: this one only. "
     "^lo,docker: all but these. Empty: loopback on one host; else addresses on which the hosts have "
     "reached each other."},
    {"MODULE_PATH", "", "module-path", 1, &Config::module_path, any(), "",
     "Name the folder of the vendor modules (mpi-mpich.so, mpi-openmpi.so, nccl.so). Empty: the folder "
     "dabke beside libdabke.so."},
    {"NCCL_LIBRARY", "", "nccl-library", 1, &Config::nccl_library, any(), "",
     "Name the file libnccl.so.2 to load if the process has not loaded NCCL already. Empty: the one of "
     "pip, else the one that the loader finds."},
    {"NUM_NCCL_STREAMS", "NUM_NCCL_STREAMS", "num-nccl-streams",
     1, &Config::num_nccl_streams, between(1, 16), "streams",
     "Set the number of streams per CUDA device that pack and unpack data for NCCL. With more than 1, a "
     "batch is packed while another travels. Collectives keep one order. Give all ranks the same value."},
    {"START_TIMEOUT_SECONDS", "START_TIMEOUT", "start-timeout",
     1, &Config::start_timeout, at_least(0.1), "seconds",
     "Wait this long in init for all ranks to arrive."},
    {"PEER_TIMEOUT_SECONDS", "", "peer-timeout-seconds", 1, &Config::peer_timeout, at_least(0), "seconds",
     "Count a peer on another host as lost after this long without a message. 0: never."},
    {"GLOO_TIMEOUT_SECONDS", "GLOO_TIMEOUT_SECONDS", "gloo-timeout-seconds",
     1, &Config::gloo_timeout, at_least(0), "seconds",
     "Limit the time of one collective on the gloo backend. 0: no limit; lost peers are detected in other "
     "ways."},
    {"TIMELINE", "TIMELINE", "timeline-filename", 1, &Config::timeline, any(), "",
     "Write a Chrome trace of every tensor to this file. DYNAMIC: record only between "
     "dabke_start_timeline and dabke_stop_timeline."},
    {"TIMELINE_MARK_CYCLES", "TIMELINE_MARK_CYCLES", "timeline-mark-cycles",
     1, &Config::timeline_mark_cycles, any(), "",
     "Mark every round of orders in the timeline."},
    {"TIMELINE_FORMAT", "", "timeline-format",
     1, choice<&Config::timeline_format>("auto,records,horovod"), any(), "",
     "Choose the form of the timeline. records: every rank writes FILE.rank<n>, and one Chrome trace is "
     "made of them at the end. horovod: rank 0 alone writes a Chrome trace. auto: horovod if "
     "HOROVOD_TIMELINE named the file, else records."},
    {"TIMELINE_STEPS", "", "timeline-steps", 1, &Config::timeline_steps, steps_or_none(), "",
     "Record only these steps, as dabke_mark_step counts them on rank 0, and about one before and after. "
     "Empty: the whole job."},
    {"TIMELINE_MAX_BYTES", "", "timeline-max-mb", 1 << 20, &Config::timeline_max_bytes, at_least(0), "bytes",
     "Limit the size of each rank's records (or of the one trace in Horovod's form). When a file reaches "
     "it, recording stops on all ranks at the same order. The merged trace is larger. 0: no limit."},
    {"TOP", "", "top-port", 1, &Config::top, top_or_none(), "",
     "Let rank 0 serve live statistics to dabke-timeline top on this port. 0: any free port. launcher: "
     "dabkerun shows them (--top). The key is in a file in ~/.dabke. Empty: off."},
    {"STALL_CHECK_TIME_SECONDS", "STALL_CHECK_TIME_SECONDS", "stall-check-warning-time-seconds",
     1, &Config::stall_check_time, at_least(0.1), "seconds",
     "Warn about a tensor that only some ranks have submitted, after this long."},
    {"STALL_SHUTDOWN_TIME_SECONDS", "STALL_SHUTDOWN_TIME_SECONDS", "stall-check-shutdown-time-seconds",
     1, &Config::stall_shutdown_time, at_least(0), "seconds",
     "Fail the job when a tensor has been stalled for this long. 0: never."},
    {"STALL_CHECK_DISABLE", "STALL_CHECK_DISABLE", "no-stall-check",
     1, &Config::stall_check_disable, any(), "",
     "Turn off warnings about stalled tensors."},
    {"DUMP_DIR", "", "dump-dir", 1, &Config::dump_dir, any(), "",
     "Choose the folder for dumps (dabke-dump.<job>.rank<n>.json), in which each rank records what it was "
     "doing. Dumps are written when a tensor stalls, at DABKE_DUMP_SIGNAL, and when the job fails. Empty: "
     "TMPDIR or /tmp, where the dumps of the newest 5 jobs stay. none: write no dumps."},
    {"DUMP_SIGNAL", "", "dump-signal", 1, &Config::dump_signal, dump_signal_or_none(), "",
     "Make all ranks write a dump when one of them receives this signal, such as USR1. Empty: none, "
     "because signals belong to the application."},
    {"DISABLE_NATIVE_STACKS", "", "no-native-stacks", 1, &Config::disable_native_stacks, any(), "",
     "Leave the stacks of this process's threads out of stall reports and dumps. Taking them interrupts "
     "system calls for a moment, by a real-time signal."},
    {"PROFILE", "", "profile", 1, &Config::profile, any(), "",
     "Print a profile on rank 0 at shutdown: where communication time went, and which rank the others "
     "waited for."},
    {"THREAD_AFFINITY", "THREAD_AFFINITY", "thread-affinity", 1, &Config::thread_affinity, any(), "",
     "Choose the core of each local rank's coordinator thread: a comma-separated list, indexed by local "
     "rank."},
    {"LOG_LEVEL", "LOG_LEVEL", "log-level",
     1, choice<&Config::log_level>("trace,debug,info,warning,error,fatal"), any(), "",
     "Print messages of this severity and above on stderr."},
    {"LOG_HIDE_TIME", "LOG_HIDE_TIME", "log-hide-timestamp", 1, &Config::log_hide_time, any(), "",
     "Print log lines without the time."},
};
// clang-format on

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

template <class Visit>
void each_choice(std::string_view choices, Visit visit) {
  while (!choices.empty()) {
    const auto comma = choices.find(',');
    visit(choices.substr(0, comma));
    choices.remove_prefix(comma == std::string_view::npos ? choices.size() : comma + 1);
  }
}

/// The index of `word` in a comma-separated list.
std::optional<std::uint8_t> index_among(std::string_view choices, std::string_view word) {
  std::optional<std::uint8_t> found;
  std::uint8_t index = 0;
  each_choice(choices, [&](std::string_view choice) {
    if (choice == word) found = index;
    ++index;
  });
  return found;
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<bool> parse_bool(std::string_view text) {
  const std::string word = lower(text);
  if (word == "1" || word == "true" || word == "yes" || word == "on") return true;
  if (word == "0" || word == "false" || word == "no" || word == "off") return false;
  return std::nullopt;
}

template <class Number>
bool set_number(Config& config, Number Config::*field, const Range& range, std::string_view text) {
  const auto value = parse_number<Number>(text);
  if (!value || std::isnan(static_cast<double>(*value))) return false;
  if (static_cast<double>(*value) < range.least || static_cast<double>(*value) > range.most) return false;
  config.*field = *value;
  return true;
}

struct Setter {
  Config& config;
  const Range& range;
  std::string_view text;

  bool operator()(bool Config::*field) const {
    const auto value = parse_bool(text);
    if (value) config.*field = *value;
    return value.has_value();
  }
  bool operator()(std::int64_t Config::*field) const { return set_number(config, field, range, text); }
  bool operator()(double Config::*field) const { return set_number(config, field, range, text); }
  bool operator()(std::string Config::*field) const {
    if (range.choices.empty()) {
      if (range.takes != nullptr && !range.takes(text)) return false;
      config.*field = std::string(text);
      return true;
    }
    const std::string word = lower(text);
    const bool found = index_among(range.choices, word).has_value();
    if (found) config.*field = word;
    return found;
  }
  bool operator()(const ChoiceField& field) const {
    const auto value = index_among(field.names, lower(text));
    if (value) field.set(config, *value);
    return value.has_value();
  }
};

/// Sets CPU_OPERATIONS to the backend that GPU_OPERATIONS names for the host. Fails if both are set and
/// differ.
Status settle_operations(Config& config) {
  const auto row = std::ranges::find(kGpuOperations, config.gpu_operations, &GpuOperationsRow::name);
  if (row == std::ranges::end(kGpuOperations) || row->cpu_operations.empty()) return {};
  if (config.cpu_operations == "auto") config.cpu_operations = row->cpu_operations;
  if (config.cpu_operations == row->cpu_operations) return {};
  return {Code::invalid_argument,
          fmt::format("DABKE_GPU_OPERATIONS={} moves tensors on GPUs through the host, with {} there, but "
                      "DABKE_CPU_OPERATIONS={}; give both the same value, or choose "
                      "DABKE_GPU_OPERATIONS=host, which takes what moves host tensors",
                      config.gpu_operations, row->cpu_operations, config.cpu_operations)};
}

}  // namespace

std::span<const Knob> knobs() { return kKnobs; }

std::string_view Knob::choices() const {
  const auto* const choice = std::get_if<ChoiceField>(&field);
  return choice != nullptr ? choice->names : range.choices;
}

std::string Knob::accepts() const {
  if (is_switch()) return "0 or 1";
  if (!choices().empty()) {
    std::string out = "one of";
    each_choice(choices(), [&](std::string_view choice) { out += fmt::format(" {}", choice); });
    return out;
  }
  if (std::holds_alternative<std::string Config::*>(field))
    return range.takes != nullptr ? std::string(range.taken) : "text";
  const bool whole = std::holds_alternative<std::int64_t Config::*>(field);
  std::string out = whole ? "whole number" : "number";
  if (!unit.empty()) out += fmt::format(" of {}", unit);
  if (std::isfinite(range.least)) out += fmt::format(", at least {}", range.least);
  if (std::isfinite(range.most)) out += fmt::format(", at most {}", range.most);
  return out;
}

Status set_knob(Config& config, const Knob& knob, std::string_view text, std::string_view source) {
  if (std::visit(Setter{config, knob.range, text}, knob.field)) return {};
  return {Code::invalid_argument,
          fmt::format("{}={} is not valid: expected {}. {}", source, text, knob.accepts(), knob.help)};
}

std::string knob_value(const Config& config, const Knob& knob) {
  return std::visit(
      [&]<class Field>(const Field& field) -> std::string {
        if constexpr (std::is_same_v<Field, ChoiceField>) {
          std::string name;
          std::uint8_t index = 0;
          each_choice(field.names, [&](std::string_view choice) {
            if (index++ == field.get(config)) name = choice;
          });
          return name;
        } else if constexpr (std::is_same_v<Field, bool Config::*>) {
          return config.*field ? "1" : "0";
        } else {
          return fmt::format("{}", config.*field);
        }
      },
      knob.field);
}

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

Result<Config> config_from_environment(const Environment& environment) {
  Config config;
  for (const Knob& knob : knobs()) {
    std::string name = knob.env_name();
    auto text = environment(name);
    if (!text && !knob.horovod.empty()) {
      name = "HOROVOD_" + std::string(knob.horovod);
      text = environment(name);
    }
    if (text) DABKE_RETURN_IF_ERROR(set_knob(config, knob, *text, name));
  }
  const bool is_horovods = !environment("DABKE_TIMELINE") && environment("HOROVOD_TIMELINE");
  if (config.timeline_format == TimelineFormat::automatic && is_horovods)
    config.timeline_format = TimelineFormat::horovod;
  DABKE_RETURN_IF_ERROR(settle_operations(config));
  return config;
}

std::string knobs_as_markdown() {
  std::string out =
      "# Configuration\n\n"
      "Printed from the table of settings by `dabkerun --print-knobs`; do not edit. `DABKE_X` is read first, "
      "then "
      "the\n"
      "Horovod variable of the same meaning. A value that is not accepted stops `dabke_init` with the row's "
      "text.\n\n"
      "| variable | also read | dabkerun flag | default | accepts | meaning |\n"
      "| --- | --- | --- | --- | --- | --- |\n";
  const Config defaults;
  for (const Knob& knob : knobs()) {
    const std::string value = knob_value(defaults, knob);
    out += fmt::format("| `{}` | {} | `--{}` | {} | {} | {} |\n", knob.env_name(),
                       knob.horovod.empty() ? "" : fmt::format("`HOROVOD_{}`", knob.horovod), knob.flag,
                       value.empty() ? "empty" : fmt::format("`{}`", value), knob.accepts(), knob.help);
  }
  return out;
}

}  // namespace dabke
