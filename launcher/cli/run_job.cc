#include "launcher/cli/run_job.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "launcher/cli/dry_run.h"
#include "launcher/cli/job_setup.h"
#include "launcher/cli/job_timeline.h"
#include "launcher/cli/launch.h"
#include "launcher/cli/mpi_launch.h"
#include "launcher/elastic/meetings.h"
#include "launcher/job/job.h"
#include "launcher/process/process_setup.h"
#include "launcher/process/worker_environment.h"
#include "launcher/reach/local_agent.h"
#include "runtime/base/ended_rank.h"
#include "runtime/base/text/counted.h"
#include "runtime/bootstrap/placement_note.h"
#include "runtime/store/rendezvous_server.h"

namespace dabke::launcher {
namespace {

int fail(int exit_code, const std::string& message) {
  fmt::print(stderr, "dabkerun: {}\n", message);
  return exit_code;
}

int hand_over_to_mpirun(const Options& options, const JobPlan& plan, const InheritedState& inherited) {
  const auto command = find_mpi_command(options, plan.placements);
  if (!command.is_ok()) return fail(kUsageError, command.status().message());
  const std::string words = as_shell_words(command->words);
  if (options.dry_run) return print_text(fmt::format("Nothing is started. It would be:\n{}\n", words));
  if (options.verbose) fmt::print(stderr, "dabkerun: handing over to {}\n", words);
  restore_process(inherited);
  return become_mpirun(*command);
}

struct OutputFiles {
  Fd output, error_output;
};

Result<std::vector<OutputFiles>> open_output_files(const std::string& directory,
                                                   const std::vector<RankPlacement>& placements) {
  std::vector<OutputFiles> files(placements.size());
  if (directory.empty()) return files;
  for (std::size_t i = 0; i < placements.size(); ++i) {
    const RankPlacement& placement = placements[i];
    DABKE_ASSIGN_OR_RETURN(files[i].output,
                           open_output_file(directory, placement.rank, placement.size, "stdout"));
    DABKE_ASSIGN_OR_RETURN(files[i].error_output,
                           open_output_file(directory, placement.rank, placement.size, "stderr"));
  }
  return files;
}

/// The input of rank 0: nothing (empty), dabkerun's own stdin, or a pipe with typed text.
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

/// The objects that a job needs in this process, apart from its agents: the store in which its ranks meet,
/// and the reports that come from the store.
struct JobServices {
  Secrets secrets;
  Input input;
  std::unique_ptr<ReportGatherer> gatherer;
  std::unique_ptr<Meetings> meetings;  // of an elastic job
  // A rank has written to the store. Only ranks that initialise Dabke do so.
  std::atomic<bool> has_met = false;
  std::unique_ptr<store::RendezvousServer> server;  // its thread uses the members above

  std::string key(const std::string& name) const { return fmt::format("{}/{}", to_hex(secrets.id), name); }
};

/// Opens the services. The store does not serve yet.
Result<std::unique_ptr<JobServices>> open_services(const Options& options, bool is_elastic) {
  auto services = std::make_unique<JobServices>();
  DABKE_ASSIGN_OR_RETURN(services->secrets, make_secrets());
  if (!is_elastic) {
    DABKE_ASSIGN_OR_RETURN(services->input, open_input(options));
  }
  DABKE_ASSIGN_OR_RETURN(services->gatherer, ReportGatherer::open());
  if (is_elastic) {
    DABKE_ASSIGN_OR_RETURN(services->meetings, Meetings::open(to_hex(services->secrets.id)));
  }
  DABKE_ASSIGN_OR_RETURN(services->server, store::RendezvousServer::listen(
                                               {"127.0.0.1"}, services->secrets.id, services->secrets.key));
  return services;
}

void log_plan(const JobPlan& plan, const JobServices& services) {
  for (const HostPlan& part : plan.parts) {
    fmt::print(stderr, "dabkerun: job {}, {} on host {}, rendezvous store {}\n", to_hex(services.secrets.id),
               counted(part.order.ranks.size(), "rank"), part.host,
               part.is_here ? services.server->url() : "forwarded by its agent");
  }
}

/// Completes the order with facts that the plan did not have. Under Slurm the key comes another way. On other
/// hosts, agents carry the store's connections.
PrepareMessage complete(PrepareMessage order, const JobPlan& plan, bool is_here,
                        const JobServices& services) {
  order.job_id = to_hex(services.secrets.id);
  if (is_here || !plan.hosts.by_slurm) order.job_key = to_hex(services.secrets.key);
  if (is_here) order.rendezvous = services.server->url();
  return order;
}

/// Adds the ranks of this host. Their output is read here directly, without frames.
Status add_local_host(Job& job, const JobPlan& plan, const HostPlan& part, PrepareMessage order,
                      std::span<OutputFiles> files, Fd input, const InheritedState& inherited) {
  AgentLink& agent = job.add_agent(part.host, std::move(order));
  std::vector<OutputEnds> ends;
  const auto placements = part.placements();
  for (std::size_t i = 0; i < placements.size(); ++i) {
    DABKE_ASSIGN_OR_RETURN(OutputPipe output, make_stdout(plan.stdout_kind));
    DABKE_ASSIGN_OR_RETURN(OutputPipe error_output, make_output_pipe());
    ends.push_back({std::move(output.write_end), std::move(error_output.write_end)});
    job.add_rank(placements[i], agent,
                 {std::move(output.read_end), std::move(error_output.read_end), std::move(files[i].output),
                  std::move(files[i].error_output)},
                 plan.style);
  }
  DABKE_ASSIGN_OR_RETURN(AgentProcess process,
                         start_local_agent(std::move(ends), std::move(input), inherited));
  agent.start(std::move(process));
  return {};
}

void add_remote_host(Job& job, const JobPlan& plan, const HostPlan& part, PrepareMessage order,
                     std::span<OutputFiles> files, Fd input) {
  AgentLink& agent = job.add_agent(part.host, std::move(order));
  const auto placements = part.placements();
  for (std::size_t i = 0; i < placements.size(); ++i)
    job.add_rank(placements[i], agent,
                 {.output_file = std::move(files[i].output), .error_file = std::move(files[i].error_output)},
                 plan.style);
  if (input) job.carry_input(agent, std::move(input));
}

Status add_hosts(Job& job, const JobPlan& plan, JobServices& services, std::span<OutputFiles> files,
                 const InheritedState& inherited) {
  for (const HostPlan& part : plan.parts) {
    const auto own = files.first(part.order.ranks.size());
    files = files.subspan(own.size());
    const bool has_rank_0 = part.order.ranks.front().placement.rank == 0;
    Fd input = has_rank_0 ? std::move(services.input.of_rank_0) : Fd();
    PrepareMessage order = complete(part.order, plan, part.is_here, services);
    order.carries_input = static_cast<bool>(input) && !part.is_here;
    if (part.is_here) {
      DABKE_RETURN_IF_ERROR(
          add_local_host(job, plan, part, std::move(order), own, std::move(input), inherited));
    } else {
      add_remote_host(job, plan, part, std::move(order), own, std::move(input));
    }
  }
  return {};
}

/// Adds the agent of this host, and makes the job elastic. The agent is started here, because this process
/// must not fork later.
Status add_members(Job& job, const Options& options, const JobPlan& plan, JobServices& services,
                   const InheritedState& inherited) {
  const ElasticPlan& elastic = *plan.elastic;
  const PrepareMessage here = complete(elastic.order_here, plan, true, services);
  AgentLink& local = job.add_agent(plan.hosts.here, here);
  DABKE_ASSIGN_OR_RETURN(AgentProcess process, start_local_agent({}, Fd(), inherited));
  local.start(std::move(process));
  job.let_members_change(
      {.limits = elastic.limits,
       .hosts = plan.hosts.hosts,
       .discovery = elastic.discovery,
       .here = plan.hosts.here,
       .order_elsewhere = complete(elastic.order_elsewhere, plan, false, services),
       .style = plan.style,
       .output_directory = options.output_directory,
       .verbose = options.verbose,
       .slurm_job = plan.hosts.slurm_job,
       .slurm_hosts = plan.hosts.by_slurm ? plan.names_elsewhere() : std::vector<std::string>(),
       .set = [&services](const std::string& key,
                          std::string value) { services.server->set(key, std::move(value)); }},
      *services.meetings, local);
  return {};
}

Job::Settings settings_of(const Options& options, const JobPlan& plan, const JobServices& services) {
  return {.verbose = options.verbose,
          .is_elastic = plan.elastic.has_value(),
          .gives_terminals = plan.stdout_kind != StdoutKind::pipe,
          .shows_figures = options.top,
          .store = services.server->url(),
          .on_end =
              [&services, is_first = !plan.elastic](const EndedRank& ended) mutable {
                services.server->set(services.key(ended_key(ended.rank)), to_text(ended));
                if (std::exchange(is_first, false))
                  services.server->set(services.key(kFirstEndedKey), to_text(ended));
              },
          .start_timeout_s = plan.config.start_timeout,
          .grace = options.grace.value_or(kGracePeriod),
          .grace_after_term = options.grace.value_or(kGraceAfterTerm)};
}

/// Starts to serve the store. This starts threads, so the process must not fork from here on.
Status serve(const JobPlan& plan, JobServices& services) {
  std::vector<std::string> hosts_by_rank;
  for (const RankPlacement& placement : plan.placements) hosts_by_rank.push_back(placement.host);
  if (!plan.elastic)
    services.server->preset(services.key(bootstrap::kPlacementKey), bootstrap::placement_note(hosts_by_rank));
  services.server->on_set([&services](const std::string& key, const std::string& value) {
    services.has_met = true;
    services.gatherer->offer(key, value);
    if (services.meetings) services.meetings->offer(key, value);
  });
  return services.server->start();
}

/// Until here a signal ends dabkerun like any program, and nothing else runs yet. From here on no call
/// blocks.
int run_by_agents(const Options& options, const JobPlan& plan, JobServices& services,
                  std::span<OutputFiles> files, const InheritedState& inherited) {
  std::vector<int> taken = job_signals();
  taken.push_back(SIGTSTP);
  const Fd signals = route_signals(taken);
  if (!signals) return fail(1, "cannot receive signals: no file descriptor is left");
  Console console(STDOUT_FILENO, STDERR_FILENO, plan.may_erase);
  auto starter = agent_starter(plan.shell, plan.names_elsewhere(), plan.hosts.by_slurm,
                               plan.elastic.has_value(), services.secrets, plan.config);
  if (!starter.is_ok()) return fail(1, starter.status().message());
  Job job(console, signals.get(), starter.take(), settings_of(options, plan, services));
  const Status added = plan.elastic ? add_members(job, options, plan, services, inherited)
                                    : add_hosts(job, plan, services, files, inherited);
  if (!added.is_ok()) return fail(1, added.message());
  if (services.input.typed) job.pass_input(*services.input.typed);
  job.watch_reports(*services.gatherer);
  if (const Status served = serve(plan, services); !served.is_ok()) return fail(1, served.message());
  const int exit_code = job.run();
  if (plan.timeline.empty()) return exit_code;
  const auto ended_by = merge_timeline(plan.timeline, services.secrets.id, services.has_met, signals.get());
  return exit_code == 0 && ended_by ? 128 + *ended_by : exit_code;
}

}  // namespace

int run_job(const Options& options, const JobPlan& plan, const InheritedState& inherited) {
  if (plan.kind == JobPlan::Kind::mpirun) return hand_over_to_mpirun(options, plan, inherited);
  if (plan.kind == JobPlan::Kind::description)
    return print_text(dry_run_text(options, plan.hosts, plan.placements, plan.shell));
  auto files = open_output_files(options.output_directory, plan.placements);
  if (!files.is_ok()) return fail(kUsageError, files.status().message());
  auto services = open_services(options, plan.elastic.has_value());
  if (!services.is_ok()) return fail(1, services.status().message());
  if (options.verbose) log_plan(plan, **services);
  return run_by_agents(options, plan, **services, *files, inherited);
}

}  // namespace dabke::launcher
