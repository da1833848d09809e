#include "launcher/cli/launch.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "launcher/cli/job_timeline.h"
#include "launcher/hosts/hosts.h"
#include "launcher/hosts/placement.h"
#include "launcher/job/job.h"
#include "launcher/job/program.h"
#include "launcher/job/spawn.h"
#include "launcher/job/worker_environment.h"
#include "runtime/base/hmac.h"
#include "runtime/bootstrap/rendezvous_server.h"

extern char** environ;

namespace dabke {
namespace {

constexpr int kUsageError = 2;

int fail(int exit_code, const std::string& message) {
  fmt::print(stderr, "dabkerun: {}\n", message);
  return exit_code;
}

Result<std::vector<Host>> hosts_of(const Options& options) {
  if (!options.hosts.empty()) return parse_host_list(options.hosts, "-H");
  if (!options.hostfile.empty()) return read_hostfile(options.hostfile);
  return std::vector<Host>{{this_host_name(), options.num_proc}};
}

Result<std::vector<RankPlacement>> plan(const Options& options) {
  DABKE_ASSIGN_OR_RETURN(const std::vector<Host> hosts, hosts_of(options));
  DABKE_ASSIGN_OR_RETURN(const Host local, only_local_host(merge_hosts(hosts)));
  return place_ranks({local}, options.num_proc);
}

std::vector<int> usable_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

/// Signals arrive through the descriptor from now on. One that was ignored when dabkerun began (nohup, a
/// shell's background job) stays ignored.
Fd route_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGTSTP}) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) ::sigaddset(&set, signal);
  }
  Fd signals(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (signals) ::sigprocmask(SIG_BLOCK, &set, nullptr);
  return signals;
}

/// Takes note of what the ranks are to get back, and changes it for dabkerun itself.
InheritedState prepare_process() {
  InheritedState inherited;
  ::sigprocmask(SIG_SETMASK, nullptr, &inherited.signal_mask);
  const auto set = [&](int signal, sighandler_t handler) {
    InheritedState::Disposition& before = inherited.dispositions.emplace_back();
    struct sigaction action {};
    action.sa_handler = handler;
    before.signal = signal;
    ::sigaction(signal, &action, &before.action);
  };
  set(SIGPIPE, SIG_IGN);  // both are errors of write() then, which are told
  set(SIGXFSZ, SIG_IGN);
  set(SIGCHLD, SIG_DFL);  // ignored, nobody would learn of the end of any child
  ::getrlimit(RLIMIT_NOFILE, &inherited.open_files);
  rlimit raised = inherited.open_files;
  raised.rlim_cur =
      raised.rlim_max;  // a rank takes three descriptors here, and one for each request to the store
  ::setrlimit(RLIMIT_NOFILE, &raised);
  return inherited;
}

struct Secrets {
  JobId id{};
  JobKey key{};
};

Result<Secrets> make_secrets() {
  Secrets secrets;
  DABKE_RETURN_IF_ERROR(random_bytes(secrets.id));
  DABKE_RETURN_IF_ERROR(random_bytes(secrets.key));
  return secrets;
}

/// What rank 0 reads: nothing (-1), dabkerun's own stdin, or a pipe with what is typed.
struct Input {
  int stdin_of_rank_0 = -1;
  std::unique_ptr<TerminalInput> typed;
  Fd typed_end;
};

Result<Input> open_input(const Options& options) {
  Input input;
  if (!options.stdin_to_rank_0) return input;
  if (::isatty(STDIN_FILENO) == 0) {
    input.stdin_of_rank_0 = STDIN_FILENO;
  } else if (TerminalInput::can_read(STDIN_FILENO)) {
    DABKE_ASSIGN_OR_RETURN(input.typed, TerminalInput::open(STDIN_FILENO));
    input.typed_end = input.typed->take_end();
    input.stdin_of_rank_0 = input.typed_end.get();
  }
  return input;
}

/// A job that runs out of descriptors half-way ends much later, with ranks that wait for each other.
Status check_descriptors(const Options& options, rlim_t ranks, const InheritedState& inherited) {
  // Standard streams, signals, dumps, the store's own, and what a fork takes for a moment.
  constexpr rlim_t kOwn = 16;
  // The channel, two streams and a connection to the store; two files.
  const rlim_t of_rank = options.output_directory.empty() ? 4 : 6;
  const rlim_t needed = kOwn + ranks * of_rank;
  if (needed <= inherited.open_files.rlim_max) return {};
  return {Code::invalid_argument,
          fmt::format("{} ranks take {} file descriptors in dabkerun, and its hard limit is {} (ulimit -Hn): "
                      "raise that limit or start fewer ranks",
                      ranks, needed, inherited.open_files.rlim_max)};
}

struct OutputFiles {
  Fd output, error_output;
};

Result<std::vector<OutputFiles>> open_output_files(const Options& options,
                                                   const std::vector<RankPlacement>& placements) {
  std::vector<OutputFiles> files(placements.size());
  if (options.output_directory.empty()) return files;
  for (std::size_t i = 0; i < placements.size(); ++i) {
    DABKE_ASSIGN_OR_RETURN(files[i].output, open_output_file(options.output_directory, placements[i].rank,
                                                             placements[i].size, "stdout"));
    DABKE_ASSIGN_OR_RETURN(
        files[i].error_output,
        open_output_file(options.output_directory, placements[i].rank, placements[i].size, "stderr"));
  }
  return files;
}

Pinning pinning_for(const Options& options, const std::vector<RankPlacement>& placements) {
  if (!options.pin_to_cores) return {};
  Pinning pinning = pin_to_cores(usable_cores(), placements.front().local_size);
  if (!pinning.warning.empty()) fmt::print(stderr, "dabkerun: {}\n", pinning.warning);
  return pinning;
}

/// Empty: it is not pinned.
std::vector<int> cores_of(const RankPlacement& placement, const Pinning& pinning) {
  return pinning.cores.empty() ? std::vector<int>()
                               : pinning.cores[static_cast<std::size_t>(placement.local_rank)];
}

void tell_plan(const JobFacts& facts, const std::vector<RankPlacement>& placements, const Pinning& pinning) {
  fmt::print(stderr, "dabkerun: job {}, {} ranks on host {}, rendezvous store {}\n", facts.job_id,
             placements.size(), placements.front().host, facts.rendezvous);
  for (const RankPlacement& placement : placements) {
    if (const std::vector<int> cores = cores_of(placement, pinning); !cores.empty())
      fmt::print(stderr, "dabkerun: rank {} is pinned to cores: {}\n", placement.rank, rank_list(cores));
  }
}

Status spawn_all(Job& job, const Options& options, const std::string& program, const JobFacts& facts,
                 const std::vector<RankPlacement>& placements, const Pinning& pinning,
                 std::vector<OutputFiles> files, int stdin_of_rank_0, const InheritedState& inherited) {
  std::vector<std::string> environment;
  for (char** each = environ; *each != nullptr; ++each) environment.emplace_back(*each);
  for (std::size_t i = 0; i < placements.size(); ++i) {
    const RankPlacement& placement = placements[i];
    SpawnRequest request{.program = program,
                         .arguments = options.command,
                         .environment = worker_environment(environment, facts, placement),
                         .cores = cores_of(placement, pinning),
                         .rank = placement.rank,
                         .input = placement.rank == 0 ? stdin_of_rank_0 : -1};
    DABKE_ASSIGN_OR_RETURN(SpawnedWorker worker, spawn_worker(request, inherited));
    job.add_rank(placement, std::move(worker), {.prefix = options.prefix, .timestamps = options.timestamps},
                 std::move(files[i].output), std::move(files[i].error_output));
  }
  return {};
}

}  // namespace

int launch(const Options& options) {
  const InheritedState inherited = prepare_process();
  auto placements = plan(options);
  if (!placements.is_ok()) return fail(kUsageError, placements.status().message());
  const char* path = std::getenv("PATH");
  const ProgramSearch program =
      find_program(options.command.front(), path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin");
  if (program.path.empty()) return fail(program.exit_code, program.message);
  if (const Status enough = check_descriptors(options, static_cast<rlim_t>(placements->size()), inherited);
      !enough.is_ok())
    return fail(1, enough.message());
  auto files = open_output_files(options, *placements);
  if (!files.is_ok()) return fail(kUsageError, files.status().message());
  const auto secrets = make_secrets();
  if (!secrets.is_ok()) return fail(1, secrets.status().message());

  auto input = open_input(options);
  if (!input.is_ok()) return fail(1, input.status().message());
  const auto gatherer = DumpGatherer::open();
  if (!gatherer.is_ok()) return fail(1, gatherer.status().message());
  auto server = RendezvousServer::listen("127.0.0.1", secrets->id, secrets->key);
  if (!server.is_ok()) return fail(1, server.status().message());
  const JobFacts facts{(*server)->url(), to_hex(secrets->id), to_hex(secrets->key), options.knobs};
  const Pinning pinning = pinning_for(options, *placements);
  if (options.verbose) tell_plan(facts, *placements, pinning);

  // Until here a signal ends dabkerun as it ends any program, and nothing else runs yet. From here on nothing
  // blocks.
  const Fd signals = route_signals();
  if (!signals) return fail(1, "cannot receive signals: no file descriptor is left");
  Console console(STDOUT_FILENO, STDERR_FILENO);
  Job job(console, signals.get(), facts.job_id, options.verbose);
  const Status spawned = spawn_all(job, options, program.path, facts, *placements, pinning, files.take(),
                                   input->stdin_of_rank_0, inherited);
  input->typed_end = Fd();  // rank 0 has the only one
  if (input->typed) job.pass_input(*input->typed);
  job.watch_dumps(**gatherer);
  (*server)->on_set(
      [&](const std::string& key, const std::string& value) { (*gatherer)->offer(key, value); });
  const Status served = (*server)->start();  // threads, so no fork from here on
  if (!spawned.is_ok() || !served.is_ok()) return job.give_up((spawned.is_ok() ? served : spawned).message());
  const int exit_code = job.run();
  if (const std::string timeline = recorded_timeline(options); !timeline.empty())
    merge_timeline(timeline, secrets->id, signals.get());
  return exit_code;
}

}  // namespace dabke
