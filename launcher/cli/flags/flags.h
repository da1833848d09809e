// Tables of the flags that are not knobs, and the answers to flags of Horovod that do not exist here.
#pragma once

#include <array>
#include <string_view>

namespace dabke::launcher {

/// Other spellings of flags. The parser does not accept Horovod's single dashes.
struct Alias {
  std::string_view spelling;
  std::string_view flag;
};
inline constexpr std::array kAliases{
    Alias{"-np", "--num-proc"},
    Alias{"-n", "--num-proc"},
    Alias{"-cb", "--check-build"},
    Alias{"-hostfile", "--hostfile"},
    Alias{"-prefix-timestamp", "--prefix-output-with-timestamp"},
    Alias{"--log-with-timestamp", "--no-log-hide-timestamp"},
    Alias{"--log-without-timestamp", "--log-hide-timestamp"},
    Alias{"--network-interface", "--network-interfaces"},
    Alias{"--min-num-proc", "--min-np"},
    Alias{"--max-num-proc", "--max-np"},
};

/// The first word of a command line for the doctor; also its topic of --help.
inline constexpr std::string_view kDoctor = "doctor";
/// The older name of the topic "settings".
inline constexpr std::string_view kSettingsBefore = "knobs";

/// The values of --launcher.
inline constexpr std::array<std::string_view, 4> kLaunchers{"auto", "ssh", "slurm", "mpi"};

/// Flags of horovodrun that this version refuses, because ignoring them would change the job.
struct Refusal {
  std::string_view flag;
  std::string_view reason;
};
inline constexpr std::string_view kNoSuchMpi = "neither MPICH nor Open MPI has it; leave it out";
inline constexpr std::string_view kNoTuning = "autotuning is not supported by this version; leave it out";
inline constexpr std::string_view kNoHierarchy = "hierarchical reduction is always used; leave it out";
inline constexpr std::array kRefusals{
    Refusal{"--tcp", kNoSuchMpi},
    Refusal{"--binding-args", "use --mpi-args"},
    Refusal{"--mpi-threads-disable", kNoSuchMpi},
    Refusal{"--jsrun", "this version cannot launch through jsrun; leave it out"},
    Refusal{"--autotune", kNoTuning},
    Refusal{"--autotune-log-file", kNoTuning},
    Refusal{"--autotune-warmup-samples", kNoTuning},
    Refusal{"--autotune-steps-per-sample", kNoTuning},
    Refusal{"--autotune-bayes-opt-max-samples", kNoTuning},
    Refusal{"--autotune-gaussian-process-noise", kNoTuning},
    Refusal{"--hierarchical-allreduce", kNoHierarchy},
    Refusal{"--hierarchical-allgather", kNoHierarchy},
    Refusal{"--torus-allreduce", kNoHierarchy},
};

/// Flags of other launchers that request the behaviour that dabkerun has in any case.
inline constexpr std::string_view kMeetsByItself = "the ranks find each other through dabkerun";
inline constexpr std::string_view kHostsAreNamed = "-H and --hostfile name the hosts";
inline constexpr std::string_view kStartsAllHosts = "one dabkerun starts the ranks on all hosts";
inline constexpr std::string_view kSlotsMayExceedCores = "a host may have more slots than cores";
inline constexpr std::string_view kInOrder = "ranks fill the hosts' slots in order and --bind-to binds them";
inline constexpr std::string_view kOwnDirectory = "ranks start in the directory in which dabkerun is started";
inline constexpr std::array kNotNeeded{
    Refusal{"--oversubscribe", kSlotsMayExceedCores},
    Refusal{"-oversubscribe", kSlotsMayExceedCores},
    Refusal{"--use-hwthread-cpus", kSlotsMayExceedCores},
    Refusal{"--map-by", kInOrder},
    Refusal{"-map-by", kInOrder},
    Refusal{"--rank-by", kInOrder},
    Refusal{"--allow-run-as-root", "dabkerun also starts ranks for root"},
    Refusal{"--tag-output", "each line begins with its rank"},
    Refusal{"--nnodes", kHostsAreNamed},
    Refusal{"--node-rank", kStartsAllHosts},
    Refusal{"--node_rank", kStartsAllHosts},
    Refusal{"--master-addr", kMeetsByItself},
    Refusal{"--master_addr", kMeetsByItself},
    Refusal{"--master-port", kMeetsByItself},
    Refusal{"--master_port", kMeetsByItself},
    Refusal{"--rdzv-endpoint", kMeetsByItself},
    Refusal{"--rdzv-backend", kMeetsByItself},
    Refusal{"--rdzv-id", kMeetsByItself},
    Refusal{"--standalone", kMeetsByItself},
    Refusal{"-wdir", kOwnDirectory},
    Refusal{"--wdir", kOwnDirectory},
    Refusal{"--chdir", kOwnDirectory},
};

/// Spellings that mean one of our flags but do not resemble it.
struct Meant {
  std::string_view spelling, flag;
};
inline constexpr std::string_view kSlotsOfHosts =
    "-H, with the number of ranks on each host, as in -H a:4,b:4";
inline constexpr std::array kMeant{
    Meant{"--host", "-H"},
    Meant{"-host", "-H"},
    Meant{"-hosts", "-H"},
    Meant{"--nodelist", "-H"},
    Meant{"-w", "-H"},
    Meant{"-f", "--hostfile"},
    Meant{"-machinefile", "--hostfile"},
    Meant{"--machinefile", "--hostfile"},
    Meant{"--machine-file", "--hostfile"},
    Meant{"-c", "-np, or --config-file"},
    Meant{"--np", "-np"},
    Meant{"--nproc", "-np"},
    Meant{"--ntasks", "-np"},
    Meant{"--nproc-per-node", kSlotsOfHosts},
    Meant{"--nproc_per_node", kSlotsOfHosts},
    Meant{"--ntasks-per-node", kSlotsOfHosts},
    Meant{"--npernode", kSlotsOfHosts},
    Meant{"-npernode", kSlotsOfHosts},
    Meant{"--ppn", kSlotsOfHosts},
    Meant{"-ppn", kSlotsOfHosts},
    Meant{"-N", kSlotsOfHosts},
    Meant{"-genv", "-x"},
    Meant{"-env", "-x"},
    Meant{"--export", "-x"},
    Meant{"--timeline", "--timeline-filename"},
    Meant{"--log", "--log-level"},
    Meant{"--output", "--output-filename"},
    Meant{"--timestamp-output", "--prefix-output-with-timestamp"},
    Meant{"--report-bindings", "--verbose"},
    Meant{"--display-map", "--dry-run"},
    Meant{"--mca", "--mpi-args, with --launcher mpi"},
    Meant{"-mca", "--mpi-args, with --launcher mpi"},
};

}  // namespace dabke::launcher
