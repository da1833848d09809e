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
/// The member, whose values have these names.
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
    {"FUSION_THRESHOLD", "FUSION_THRESHOLD", "fusion-threshold-mb", 1 << 20, &Config::fusion_threshold, at_least(0), "bytes",
     "Largest fusion buffer: small tensors are packed up to this size and travel as one. 0 turns fusion off."},
    {"CYCLE_TIME", "CYCLE_TIME", "cycle-time-ms", 1, &Config::cycle_time, at_least(0), "ms",
     "Longest deliberate wait for more tensors to fuse. 0 adapts: order at once while idle, gather while busy."},
    {"DISABLE_GROUP_FUSION", "DISABLE_GROUP_FUSION", "disable-group-fusion", 1, &Config::disable_group_fusion, any(), "",
     "Keep the tensors of a group out of batches with tensors outside it."},
    {"CACHE_CAPACITY", "CACHE_CAPACITY", "cache-capacity", 1, &Config::cache_capacity, between(0, kLargestCache), "tensors",
     "How many signatures the response cache remembers: a tensor in it is negotiated by its number alone. 0 turns it off."},
    {"DISABLE_LEARNED_BATCHES", "", "no-learned-batches", 1, &Config::disable_learned_batches, any(), "",
     "Do not find out which tensors become ready together in every step, to negotiate and fuse them together from then on."},
    {"HIERARCHICAL_ALLREDUCE", "HIERARCHICAL_ALLREDUCE", "hierarchical-allreduce", 1, &Config::hierarchical_allreduce, any(), "",
     "Changes nothing: where hosts have several ranks, tensors are reduced inside each host first in any case."},
    {"HIERARCHICAL_ALLGATHER", "HIERARCHICAL_ALLGATHER", "hierarchical-allgather", 1, &Config::hierarchical_allgather, any(), "",
     "Changes nothing: where hosts have equally many ranks, gathering between and inside hosts is done apart in any case."},
    {"DETERMINISTIC", "", "deterministic", 1, &Config::deterministic, any(), "",
     "Make batches a function of names and sizes alone, so that runs repeat bit for bit on every backend."},
    {"DUPLICATE_NAMES", "", "duplicate-names", 1, choice<&Config::duplicate_names>("queue,error"), any(), "",
     "A name submitted while it is still pending: queue it behind the first, or fail it as Horovod does."},
    {"JOIN", "", "join", 1, choice<&Config::join>("dabke,horovod"), any(), "",
     "What ranks that have joined are to the others. dabke: an average is that of the ranks that take part, and a joined one gives no rows. horovod: an average is divided by the full size of the process set, and allgather, broadcast, alltoall and reducescatter fail. What rank 0 says counts."},
    {"CONTROLLER", "CONTROLLER", "controller", 1, choice<&Config::controller>("auto,shm,tcp,mpi,gloo"), any(), "",
     "What carries the negotiation. auto: shared memory within a host, TCP between hosts; shm: an error where memory cannot be shared; mpi: MPI, where it has started the job and its thread level is MPI_THREAD_MULTIPLE, else an error. gloo is Horovod's word for tcp."},
    {"TREE_RADIX", "", "tree-radix", 1, &Config::tree_radix, between(0, 1024), "children",
     "How many other hosts report to a host on the negotiation's way to rank 0. 0: every rank reports to rank 0 itself."},
    {"PROCESS_SETS", "", "process-sets", 1, &Config::process_sets, any(), "",
     "Process sets that exist from the start, with the ids 1, 2, ...: ranks with commas, sets with semicolons (0,1;2,3)."},
    {"CPU_OPERATIONS", "CPU_OPERATIONS", "cpu-operations", 1, &Config::cpu_operations, one_of(kCpuOperations), "",
     "Which backend moves host tensors. auto: shared memory where all ranks of a process set share it, hierarchical where several of its hosts have several ranks, else our TCP links for what is small and gloo for the rest, which is also what tcp means. mpi: MPI, and shared memory inside where there are several hosts."},
    {"SHM_STORES", "", "shm-stores", 1, choice<&Config::shm_stores>("auto,plain,streaming"), any(), "",
     "How ranks of one host write what the others read, from 64 KB on: plainly, which is best where their cores are near, or past their caches, where they are far apart. auto: whichever takes less time, measured while they work. The results are the same."},
    {"GPU_OPERATIONS", "", "gpu-operations", 1, &Config::gpu_operations, one_of(kGpuOperationNames), "",
     "What moves tensors on CUDA devices, the same on all ranks. nccl: NCCL. hierarchical: NCCL inside each host, and between hosts whatever moves host tensors there. host: all of it is copied to the host, moved as host tensors are, and copied back. mpi, gloo: the same, with CPU_OPERATIONS of that name; an MPI that is CUDA-aware gets pointers to device memory for allreduce and broadcast."},
    {"MPI_CUDA_AWARE", "", "mpi-cuda-aware", 1, choice<&Config::mpi_cuda_aware>("auto,yes,no"), any(), "",
     "Whether MPI may be given pointers to the memory of CUDA devices, with GPU_OPERATIONS=mpi; the same on all ranks. auto: what it says itself (MPIX_Query_cuda_support), and no where it cannot be asked. A yes that is not true ends in a crash inside MPI."},
    {"COMPRESSION", "", "compression", 1, choice<&Config::compression>("none,float16,bfloat16"), any(), "",
     "What the float32 elements of an allreduce travel as between hosts, where the call does not say: half the bytes for fewer digits. They are added in float32 and rounded to it once more at the end, on CUDA devices by NCCL in its own way. Within a host, and for all other collectives and dtypes, nothing changes."},
    {"NETWORK_INTERFACE", "GLOO_IFACE", "network-interfaces", 1, &Config::network_interface, any(), "",
     "What links between ranks may use: interfaces, addresses and networks with commas between, as in eth0,10.1.0.0/16. eth: all that begin so, where none is called so; =eth0: that one alone; ^lo,docker: all but those. Empty: loopback on one host, else of each host an address on which the others have reached it."},
    {"MODULE_PATH", "", "module-path", 1, &Config::module_path, any(), "",
     "Folder with the vendor modules (mpi-mpich.so, mpi-openmpi.so, nccl.so). Empty: the folder dabke beside libdabke.so."},
    {"NCCL_LIBRARY", "", "nccl-library", 1, &Config::nccl_library, any(), "",
     "The file libnccl.so.2 to load for tensors on CUDA devices, where none is in the process already. Empty: pip's, else what the loader finds."},
    {"NUM_NCCL_STREAMS", "NUM_NCCL_STREAMS", "num-nccl-streams", 1, &Config::num_nccl_streams, between(1, 16), "streams",
     "Streams of each CUDA device on which what travels over NCCL is packed and unpacked, each with buffers of its own, so that one batch is packed while another travels. Collectives stay in one order. 1: all of it on the stream of the collectives. The same on all ranks."},
    {"START_TIMEOUT_SECONDS", "START_TIMEOUT", "start-timeout", 1, &Config::start_timeout, at_least(0.1), "seconds",
     "How long init waits for all ranks to arrive."},
    {"PEER_TIMEOUT_SECONDS", "", "peer-timeout-seconds", 1, &Config::peer_timeout, at_least(0), "seconds",
     "How long a peer on another host may be silent before it counts as lost. 0: for ever."},
    {"GLOO_TIMEOUT_SECONDS", "GLOO_TIMEOUT_SECONDS", "gloo-timeout-seconds", 1, &Config::gloo_timeout, at_least(0), "seconds",
     "Limit for one collective on the gloo backend. 0: none, because lost peers are noticed by other means."},
    {"TIMELINE", "TIMELINE", "timeline-filename", 1, &Config::timeline, any(), "",
     "Write a Chrome trace of every tensor to this file. DYNAMIC: only between dabke_start_timeline and dabke_stop_timeline."},
    {"TIMELINE_MARK_CYCLES", "TIMELINE_MARK_CYCLES", "timeline-mark-cycles", 1, &Config::timeline_mark_cycles, any(), "",
     "Mark every round of orders in the timeline."},
    {"TIMELINE_FORMAT", "", "timeline-format", 1, choice<&Config::timeline_format>("auto,records,horovod"), any(), "",
     "records: every rank writes what it saw to <the timeline's name>.rank<n>, and at the end one Chrome trace is made of them all. horovod: rank 0 alone writes a Chrome trace, as Horovod does. auto: records, or horovod where HOROVOD_TIMELINE names the file."},
    {"TIMELINE_STEPS", "", "timeline-steps", 1, &Config::timeline_steps, steps_or_none(), "",
     "Write DABKE_TIMELINE for these steps alone, as dabke_mark_step counts them on rank 0, and about one before and after. Empty: the whole job."},
    {"TIMELINE_MAX_BYTES", "", "timeline-max-mb", 1 << 20, &Config::timeline_max_bytes, at_least(0), "bytes",
     "Largest size of each rank's file of records, or of the one trace in Horovod's format: before a file has it the timeline stops on all ranks, at the same order. The merged trace is larger. 0: no limit."},
    {"TOP", "", "top-port", 1, &Config::top, top_or_none(), "",
     "Port on which rank 0 shows the job to dabke-timeline top; 0: any that is free. The key is in a file in ~/.dabke. launcher: dabkerun shows it (--top). Empty: nobody can look."},
    {"STALL_CHECK_TIME_SECONDS", "STALL_CHECK_TIME_SECONDS", "stall-check-warning-time-seconds", 1, &Config::stall_check_time, at_least(0.1), "seconds",
     "Report a tensor that some ranks submitted and others did not after this time."},
    {"STALL_SHUTDOWN_TIME_SECONDS", "STALL_SHUTDOWN_TIME_SECONDS", "stall-check-shutdown-time-seconds", 1, &Config::stall_shutdown_time, at_least(0), "seconds",
     "Fail the job when a tensor is stalled for this time. 0: never."},
    {"STALL_CHECK_DISABLE", "STALL_CHECK_DISABLE", "no-stall-check", 1, &Config::stall_check_disable, any(), "",
     "Report no stalls."},
    {"DUMP_DIR", "", "dump-dir", 1, &Config::dump_dir, any(), "",
     "Where each rank writes what it was doing (dabke-dump.<job>.rank<n>.json) when a tensor stalls, at DABKE_DUMP_SIGNAL, and when the job fails. Empty: TMPDIR or /tmp, where those of the newest 5 jobs stay; none: nowhere."},
    {"DUMP_SIGNAL", "", "dump-signal", 1, &Config::dump_signal, dump_signal_or_none(), "",
     "A signal (such as USR1) at which all ranks write a dump when one of them gets it. Empty: none, because signals belong to the application."},
    {"DISABLE_NATIVE_STACKS", "", "no-native-stacks", 1, &Config::disable_native_stacks, any(), "",
     "Take no stacks of this process's threads for stall reports and dumps: a real-time signal would interrupt their system calls for a moment."},
    {"PROFILE", "", "profile", 1, &Config::profile, any(), "",
     "Print at shutdown, on rank 0, where the communication time went and which rank the others waited for."},
    {"THREAD_AFFINITY", "THREAD_AFFINITY", "thread-affinity", 1, &Config::thread_affinity, any(), "",
     "Core for the coordinator thread of each local rank: a comma-separated list, indexed by local rank."},
    {"LOG_LEVEL", "LOG_LEVEL", "log-level", 1, choice<&Config::log_level>("trace,debug,info,warning,error,fatal"), any(), "",
     "Least severe messages to print on stderr."},
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

/// The place of the word in a list with commas.
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

/// Where GPU_OPERATIONS moves tensors through the host, with one backend there, CPU_OPERATIONS is that one.
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
      "Printed from the knob table by `dabkerun --print-knobs`; do not edit. `DABKE_X` is read first, then "
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
