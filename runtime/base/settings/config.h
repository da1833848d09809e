// The settings of a user: defaults are in Config, all else is in one row of the knob table. The environment
// name, its Horovod alias, the launcher's flag, --help and docs/configuration.md come from the row.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/base/kinds.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

namespace dabke {

/// The largest response cache that a user can ask for, in signatures.
inline constexpr std::int64_t kLargestCache = std::int64_t{1} << 20;

/// The treatment of a name that is submitted while it is pending: wait behind the first, or fail.
enum class DuplicateNames : std::uint8_t { queue, error };
/// The rule by which ranks that called `join()` count in the others' collectives: Dabke's or Horovod's.
enum class JoinRule : std::uint8_t { dabke, horovod };
/// The channel of the negotiation. `gloo` is Horovod's word for `tcp`.
enum class Controller : std::uint8_t { automatic, shm, tcp, mpi, gloo };
/// The way in which ranks of one host write what the others read; `automatic` takes the faster one.
enum class StorePolicy : std::uint8_t { automatic, plain, streaming };
/// A yes or no; `automatic` asks the library.
enum class Answer : std::uint8_t { automatic, yes, no };
/// The timeline's files: the records of each rank, or one Chrome trace of rank 0 in Horovod's form.
/// `automatic` means records, or `horovod` if HOROVOD_TIMELINE names the file.
enum class TimelineFormat : std::uint8_t { automatic, records, horovod };

struct Config {
  std::int64_t fusion_threshold = 128 << 20;
  double cycle_time = 0;
  bool disable_group_fusion = false;
  std::int64_t cache_capacity = 131'072;
  bool disable_learned_batches = false;
  bool hierarchical_allreduce = false;
  bool hierarchical_allgather = false;
  bool deterministic = false;
  DuplicateNames duplicate_names = DuplicateNames::queue;
  JoinRule join = JoinRule::dabke;

  Controller controller = Controller::automatic;
  std::int64_t tree_radix = 8;
  std::string process_sets;
  std::string cpu_operations = "auto";  // the registry of backends (ops/) reads this and gpu_operations
  StorePolicy shm_stores = StorePolicy::automatic;
  std::string gpu_operations = "nccl";
  Answer mpi_cuda_aware = Answer::automatic;
  Compression compression = Compression::none;
  std::string network_interface;
  std::string module_path;
  std::string nccl_library;
  std::int64_t num_nccl_streams = 1;
  double start_timeout = 30;
  double peer_timeout = 30;
  double gloo_timeout = 0;

  std::string timeline;
  bool timeline_mark_cycles = false;
  TimelineFormat timeline_format = TimelineFormat::automatic;
  std::string timeline_steps;           // empty: all steps, else a StepRange
  std::int64_t timeline_max_bytes = 0;  // of one file; 0: no limit
  std::string top;  // the port on which rank 0 serves live statistics, or "launcher"; empty: off
  /// True if every rank writes records, false if rank 0 alone writes a trace.
  bool records_timeline() const { return timeline_format != TimelineFormat::horovod; }

  double stall_check_time = 60;
  double stall_shutdown_time = 0;
  bool stall_check_disable = false;

  std::string dump_dir;
  std::string dump_signal;
  bool disable_native_stacks = false;

  bool profile = false;

  bool is_python = false;  // not a knob: the program sets it, and messages name its calls

  std::string thread_affinity;
  LogLevel log_level = LogLevel::warning;
  bool log_hide_time = false;
};

/// The names of init and shutdown in the program's language.
inline std::string_view init_name(const Config& config) {
  return config.is_python ? "dabke.init()" : "dabke_init";
}
inline std::string_view shutdown_name(const Config& config) {
  return config.is_python ? "dabke.shutdown()" : "dabke_shutdown";
}

/// The values that a knob takes: a number from `least` to `most`, one of `choices` (comma-separated), or
/// text. If `takes` is set it decides which texts are valid, and `taken` describes them.
struct Range {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  std::string_view choices;
  bool (*takes)(std::string_view text) = nullptr;
  std::string_view taken;
};

/// A knob's member that is an enumeration.
struct ChoiceField {
  std::string_view names;  // of its values, comma-separated, in the order of their numbers
  std::uint8_t (*get)(const Config& config);
  void (*set)(Config& config, std::uint8_t value);
  bool operator==(const ChoiceField& other) const { return get == other.get; }
};

using KnobField = std::variant<bool Config::*, std::int64_t Config::*, double Config::*,
                               std::string Config::*, ChoiceField>;

struct Knob {
  std::string_view env;      // DABKE_<env>
  std::string_view horovod;  // HOROVOD_<horovod> means the same; empty: Horovod has no such knob
  std::string_view flag;     // dabkerun --<flag>
  double flag_scale;         // the variable's value is the flag's value times this (for megabytes, say)
  KnobField field;
  Range range;
  std::string_view unit;  // of the variable; empty: none
  std::string_view help;

  std::string env_name() const { return "DABKE_" + std::string(env); }
  bool is_switch() const { return std::holds_alternative<bool Config::*>(field); }
  /// The values that it takes, comma-separated; empty if they cannot be listed.
  std::string_view choices() const;
  /// A description of the values that it takes, such as "number of bytes, at least 0".
  std::string accepts() const;
};

/// Every knob, in the order in which help and docs show them.
std::span<const Knob> knobs();

/// Sets one knob from text; `source` (the name of a variable or flag) goes into the error.
Status set_knob(Config& config, const Knob& knob, std::string_view text, std::string_view source);
/// The knob's value as the text that set_knob reads back.
std::string knob_value(const Config& config, const Knob& knob);

/// Returns the value of an environment variable, or nothing if it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

/// The defaults, overridden by DABKE_X, or by HOROVOD_X if DABKE_X is not set. The error names the variable,
/// its value and the accepted values.
Result<Config> config_from_environment(const Environment& environment);

/// The text of docs/configuration.md, printed from the table.
std::string knobs_as_markdown();

}  // namespace dabke
