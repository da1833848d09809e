#include "launcher/cli/launch.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <span>

#include <fmt/format.h>

#include "launcher/cli/dry_run.h"
#include "launcher/cli/flags/flags.h"
#include "launcher/cli/job_hosts.h"
#include "launcher/cli/job_setup.h"
#include "launcher/cli/job_timeline.h"
#include "launcher/cli/mpi_launch.h"
#include "launcher/cli/started_once.h"
#include "launcher/hosts/placement.h"
#include "launcher/job/forwarded_environment.h"
#include "launcher/job/job.h"
#include "launcher/process/process_setup.h"
#include "launcher/process/program.h"
#include "launcher/process/worker_environment.h"
#include "launcher/reach/local_agent.h"
#include "runtime/base/settings/config.h"
#include "runtime/base/text/counted.h"
#include "runtime/bootstrap/placement_note.h"
#include "runtime/store/rendezvous_server.h"

namespace dabke {
namespace {

constexpr int kUsageError = 2;

int fail(int exit_code, const std::string& message) {
  fmt::print(stderr, "dabkerun: {}\n", message);
  return exit_code;
}

/// The ranks of one host.
struct HostPart {
  std::string host;
  bool is_here = false;
  std::vector<RankPlacement> placements;
};

/// Placements are in the order of the hosts.
std::vector<HostPart> parts_of(const std::vector<RankPlacement>& placements, const std::string& here) {
  std::vector<HostPart> parts;
  for (const RankPlacement& placement : placements) {
    if (parts.empty() || parts.back().host != placement.host)
      parts.push_back({placement.host, placement.host == here, {}});
    parts.back().placements.push_back(placement);
  }
  return parts;
}

/// What rank 0 reads: nothing (empty), dabkerun's own stdin, or a pipe with what is typed.
struct Input {
  Fd of_rank_0;
  std::unique_ptr<TerminalInput> typed;
};

Result<Input> open_input(const Options& options) {
  Input input;
  if (!options.stdin_to_rank_0) return input;
  if (::isatty(STDIN_FILENO) == 0) {
    input.of_rank_0 = Fd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  } else if (TerminalInput::can_read(STDIN_FILENO)) {
    DABKE_ASSIGN_OR_RETURN(input.typed, TerminalInput::open(STDIN_FILENO));
    input.of_rank_0 = input.typed->take_end();
  }
  return input;
}

/// Those that whoever started dabkerun has left open, beside the standard streams.
rlim_t inherited_descriptors() {
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc/self/fd", error);
  rlim_t open = 0;
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) ++open;
  const rlim_t known = STDERR_FILENO + 2;  // the iterator's own is one
  return open > known ? open - known : 0;
}

/// A job that runs out of descriptors half-way ends much later, with ranks that wait for each other.
Status check_descriptors(const Options& options, rlim_t ranks, const InheritedState& inherited) {
  // Standard streams, signals, dumps, the store's own, and what a fork takes for a moment.
  constexpr rlim_t kOwn = 16;
  // The channel, two streams and a connection to the store; two files.
  const rlim_t of_rank = options.output_directory.empty() ? 4 : 6;
  const rlim_t needed = kOwn + ranks * of_rank, open = inherited_descriptors();
  if (needed + open <= inherited.open_files.rlim_max) return {};
  return {
      Code::invalid_argument,
      fmt::format("{} ranks take {} file descriptors in dabkerun{}, and its hard limit is {} (ulimit -Hn): "
                  "raise that limit or start fewer ranks",
                  ranks, needed,
                  open == 0 ? "" : fmt::format(" beside {} that were open when it was started", open),
                  inherited.open_files.rlim_max)};
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

void tell_plan(const JobFacts& facts, const std::vector<HostPart>& parts) {
  for (const HostPart& part : parts) {
    fmt::print(stderr, "dabkerun: job {}, {} on host {}, rendezvous store {}\n", facts.job_id,
               counted(part.placements.size(), "rank"), part.host,
               part.is_here ? facts.rendezvous : "carried by its agent");
  }
}

StdoutKind stdout_kind(const Options& options) {
  if (options.pty) return *options.pty ? StdoutKind::terminal : StdoutKind::pipe;
  return ::isatty(STDOUT_FILENO) == 1 ? StdoutKind::terminal_if_any : StdoutKind::pipe;
}

PrepareMessage order_for(const Options& options, const JobFacts& facts,
                         const std::vector<RankPlacement>& placements, bool is_elsewhere) {
  const std::vector<std::string> own = own_environment();
  PrepareMessage order{.command = options.command,
                       .environment = with_given_variables(is_elsewhere ? forwarded_environment(own) : own,
                                                           own, options.variables),
                       .rendezvous = facts.rendezvous,
                       .job_id = facts.job_id,
                       .job_key = facts.job_key,
                       .variables = facts.variables,
                       .bind_to = options.bind_to.value_or(BindTo::automatic),
                       .verbose = options.verbose,
                       .stdout_kind = stdout_kind(options),
                       .grace_ms = options.grace.value_or(kPatience).count()};
  for (const RankPlacement& placement : placements)
    order.ranks.push_back({placement, variables_of_rank(options.variables, placement.rank)});
  return order;
}

bool takes_control_sequences() {
  const auto terminal = process_environment()("TERM");
  return terminal && *terminal != "dumb";
}

/// Colours where the terminal has some and the user does not object (https://no-color.org).
OutputStyle style_of(const Options& options) {
  return {.prefix = options.prefix,
          .timestamps = options.timestamps,
          .is_coloured = takes_control_sequences() && process_environment()("NO_COLOR").value_or("").empty()};
}

/// The ranks of this host print into what is read here, with no detour by frames.
Status add_local_host(Job& job, const Options& options, const JobFacts& facts, const HostPart& part,
                      std::span<OutputFiles> files, Fd input, const InheritedState& inherited) {
  AgentLink& agent = job.add_agent(part.host, order_for(options, facts, part.placements, false));
  std::vector<OutputEnds> ends;
  for (std::size_t i = 0; i < part.placements.size(); ++i) {
    DABKE_ASSIGN_OR_RETURN(OutputPipe output, make_stdout(stdout_kind(options)));
    DABKE_ASSIGN_OR_RETURN(OutputPipe error_output, make_output_pipe());
    ends.push_back({std::move(output.write_end), std::move(error_output.write_end)});
    job.add_rank(part.placements[i], agent,
                 {std::move(output.read_end), std::move(error_output.read_end), std::move(files[i].output),
                  std::move(files[i].error_output)},
                 style_of(options));
  }
  DABKE_ASSIGN_OR_RETURN(AgentProcess process,
                         start_local_agent(std::move(ends), std::move(input), inherited));
  agent.start(std::move(process));
  return {};
}

void add_remote_host(Job& job, const Options& options, const JobFacts& facts, const HostPart& part,
                     std::span<OutputFiles> files, Fd input, double peer_timeout_s, bool by_slurm) {
  PrepareMessage order = order_for(options, facts, part.placements, true);
  order.keeps_own_variables = true;
  order.directory = std::filesystem::current_path();
  order.rendezvous.clear();
  if (by_slurm) order.job_key.clear();  // it comes by Slurm's way
  order.carries_input = static_cast<bool>(input);
  order.peer_timeout_ms = static_cast<std::int64_t>(peer_timeout_s * 1000);
  AgentLink& agent = job.add_agent(part.host, std::move(order));
  for (std::size_t i = 0; i < part.placements.size(); ++i)
    job.add_rank(part.placements[i], agent,
                 {.output_file = std::move(files[i].output), .error_file = std::move(files[i].error_output)},
                 style_of(options));
  if (input) job.carry_input(agent, std::move(input));
}

std::vector<std::string> names_elsewhere(const std::vector<HostPart>& parts) {
  std::vector<std::string> names;
  for (const HostPart& part : parts) {
    if (!part.is_here) names.push_back(part.host);
  }
  return names;
}

int launch_by_mpi(const Options& options, const std::vector<RankPlacement>& placements,
                  const InheritedState& inherited) {
  const auto command = find_mpi_command(options, placements);
  if (!command.is_ok()) return fail(kUsageError, command.status().message());
  const std::string words = as_shell_words(command->words);
  if (options.dry_run) return print_text(fmt::format("Nothing is started. It would be:\n{}\n", words));
  if (options.verbose) fmt::print(stderr, "dabkerun: handing over to {}\n", words);
  restore_process(inherited);
  return become_mpirun(*command);
}

}  // namespace

int print_text(const std::string& text) {
  ::signal(SIGXFSZ, SIG_IGN);  // a limit of file size (ulimit -f) is an error of fwrite() then
  const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (is_written && std::fflush(stdout) == 0) return 0;
  return fail(1, system_error("cannot write to stdout", errno).message());
}

int launch(const Options& options) {
  const InheritedState inherited = prepare_process();
  if (options.top && ::isatty(STDERR_FILENO) == 0)
    return fail(kUsageError,
                "--top draws its table on a terminal, and stderr is none; for a job without a terminal give "
                "--top-port 0, and look at it with dabke-timeline top");
  const auto hosts = hosts_of_job(options, process_environment());
  if (!hosts.is_ok()) return fail(kUsageError, hosts.status().message());
  if (const Status once = check_started_once(process_environment()); !once.is_ok())
    return fail(kUsageError, once.message());
  if (options.launcher != "mpi") tell_hosts(*hosts);
  const auto placed = place_ranks(hosts->hosts, options.num_proc);
  if (!placed.is_ok()) return fail(kUsageError, placed.status().message());
  const std::vector<RankPlacement>& placements = *placed;
  const Status given =
      check_given_variables(options.variables, own_environment(), static_cast<int>(placements.size()));
  if (!given.is_ok()) return fail(kUsageError, given.message());
  if (options.launcher == "mpi") return launch_by_mpi(options, placements, inherited);
  const std::vector<HostPart> parts = parts_of(placements, hosts->here);
  // On this host alone the ranks say themselves what is wrong with their variables.
  const bool is_here_alone = std::ranges::all_of(parts, &HostPart::is_here);
  const auto config = is_here_alone ? Result<Config>(Config()) : config_of(options);
  if (!config.is_ok()) return fail(kUsageError, config.status().message());
  const auto shell = shell_of(options);
  if (!shell.is_ok()) return fail(1, shell.status().message());
  if (std::ranges::any_of(parts, &HostPart::is_here)) {
    const auto own = own_environment();
    const std::string path = variable_in(with_given_variables(own, own, options.variables), "PATH");
    const ProgramSearch program = find_program(options.command.front(), path.empty() ? kStandardPath : path);
    if (program.path.empty()) {
      const bool is_doctor = options.command.front() == kDoctor;
      return fail(program.exit_code,
                  program.message + (is_doctor ? "; the doctor goes before all flags: dabkerun doctor" : ""));
    }
  }
  if (options.dry_run) return print_text(dry_run_text(options, *hosts, placements, *shell));
  if (const Status enough = check_descriptors(options, static_cast<rlim_t>(placements.size()), inherited);
      !enough.is_ok())
    return fail(1, enough.message());
  auto files = open_output_files(options, placements);
  if (!files.is_ok()) return fail(kUsageError, files.status().message());
  const auto secrets = make_secrets();
  if (!secrets.is_ok()) return fail(1, secrets.status().message());

  auto input = open_input(options);
  if (!input.is_ok()) return fail(1, input.status().message());
  const auto gatherer = ReportGatherer::open();
  if (!gatherer.is_ok()) return fail(1, gatherer.status().message());
  auto server = RendezvousServer::listen({"127.0.0.1"}, secrets->id, secrets->key);
  if (!server.is_ok()) return fail(1, server.status().message());
  JobFacts facts{(*server)->url(), to_hex(secrets->id), to_hex(secrets->key), options.knobs};
  const std::string timeline = recorded_timeline(options);
  if (!timeline.empty()) facts.variables.emplace_back("DABKE_MERGES_TIMELINE", timeline);
  if (options.top) facts.variables.emplace_back("DABKE_TOP", "launcher");
  if (options.verbose) tell_plan(facts, parts);

  // Until here a signal ends dabkerun as it ends any program, and nothing else runs yet. From here on nothing
  // blocks.
  std::vector<int> taken = job_signals();
  taken.push_back(SIGTSTP);
  const Fd signals = route_signals(taken);
  if (!signals) return fail(1, "cannot receive signals: no file descriptor is left");
  Console console(STDOUT_FILENO, STDERR_FILENO, takes_control_sequences());
  const EndAllPolicy policy;
  auto starter = agent_starter(*shell, names_elsewhere(parts), hosts->by_slurm, *secrets, *config);
  if (!starter.is_ok()) return fail(1, starter.status().message());
  Job job(console, signals.get(), policy, starter.take(),
          {.verbose = options.verbose,
           .gives_terminals = stdout_kind(options) != StdoutKind::pipe,
           .store = facts.rendezvous,
           .on_end =
               [&server, &facts, is_first = true](const EndedRank& ended) mutable {
                 for (const std::string& key : {ended_key(ended.rank), std::string(kFirstEndedKey)}) {
                   if (key != kFirstEndedKey || std::exchange(is_first, false))
                     (*server)->set(fmt::format("{}/{}", facts.job_id, key), to_text(ended));
                 }
               },
           .start_timeout_s = config->start_timeout,
           .grace = options.grace.value_or(kPatience),
           .grace_after_term = options.grace.value_or(kPatienceAfterTerm)});
  std::span<OutputFiles> rest(*files);
  for (const HostPart& part : parts) {
    const auto own = rest.first(part.placements.size());
    rest = rest.subspan(own.size());
    Fd of_rank_0 = part.placements.front().rank == 0 ? std::move(input->of_rank_0) : Fd();
    if (!part.is_here) {
      add_remote_host(job, options, facts, part, own, std::move(of_rank_0), config->peer_timeout,
                      hosts->by_slurm);
      continue;
    }
    const Status added = add_local_host(job, options, facts, part, own, std::move(of_rank_0), inherited);
    if (!added.is_ok()) return fail(1, added.message());
  }
  if (input->typed) job.pass_input(*input->typed);
  job.watch_reports(**gatherer);
  std::vector<std::string> hosts_by_rank;
  for (const RankPlacement& placement : placements) hosts_by_rank.push_back(placement.host);
  (*server)->preset(fmt::format("{}/{}", facts.job_id, kPlacementKey), placement_note(hosts_by_rank));
  std::atomic<bool> has_met = false;  // only ranks that initialise Dabke write there
  (*server)->on_set([&](const std::string& key, const std::string& value) {
    has_met = true;
    (*gatherer)->offer(key, value);
  });
  const Status served = (*server)->start();  // threads, so no fork from here on
  if (!served.is_ok()) return fail(1, served.message());
  const int exit_code = job.run();
  if (timeline.empty()) return exit_code;
  const auto ended_by = merge_timeline(timeline, secrets->id, has_met, signals.get());
  return exit_code == 0 && ended_by ? 128 + *ended_by : exit_code;
}

}  // namespace dabke
