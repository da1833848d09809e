// Tables of the flags that are no knobs, and what to say about those of Horovod that are not here.
#pragma once

#include <array>
#include <string_view>

namespace dabke {

/// Other spellings. Horovod's single dashes are none that the parser knows.
struct Alias {
  std::string_view spelling;
  std::string_view flag;
};
inline constexpr std::array kAliases{
    Alias{"-np", "--num-proc"},
    Alias{"-cb", "--check-build"},
    Alias{"-hostfile", "--hostfile"},
    Alias{"-prefix-timestamp", "--prefix-output-with-timestamp"},
    Alias{"--log-with-timestamp", "--no-log-hide-timestamp"},
    Alias{"--log-without-timestamp", "--log-hide-timestamp"},
    Alias{"--network-interface", "--network-interfaces"},
};

/// The word that begins a command line for the doctor; also its topic of --help.
inline constexpr std::string_view kDoctor = "doctor";

/// The values of --launcher.
inline constexpr std::array<std::string_view, 4> kLaunchers{"auto", "ssh", "slurm", "mpi"};

/// Flags of horovodrun that this version refuses, because to ignore them would change what a job does.
struct Refusal {
  std::string_view flag;
  std::string_view reason;
};
inline constexpr std::string_view kNoSuchMpi = "no MPI that dabkerun hands over to has it; leave it out";
inline constexpr std::string_view kNoElastic = "elastic jobs are not supported by this version; leave it out";
inline constexpr std::string_view kNoTuning = "autotuning is not supported by this version; leave it out";
inline constexpr std::string_view kNoHierarchy =
    "hosts with several ranks reduce inside first in any case; leave it out";
inline constexpr std::array kRefusals{
    Refusal{"--tcp", kNoSuchMpi},
    Refusal{"--binding-args", "say it with --mpi-args"},
    Refusal{"--mpi-threads-disable", kNoSuchMpi},
    Refusal{"--jsrun", "this version does not launch through jsrun; leave it out"},
    Refusal{"--host-discovery-script", kNoElastic},
    Refusal{"--min-np", kNoElastic},
    Refusal{"--min-num-proc", kNoElastic},
    Refusal{"--max-np", kNoElastic},
    Refusal{"--max-num-proc", kNoElastic},
    Refusal{"--slots-per-host", kNoElastic},
    Refusal{"--elastic-timeout", kNoElastic},
    Refusal{"--reset-limit", kNoElastic},
    Refusal{"--blacklist-cooldown-range", kNoElastic},
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

}  // namespace dabke
