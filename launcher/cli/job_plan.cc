#include "launcher/cli/job_plan.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "launcher/cli/flags/flags.h"
#include "launcher/cli/job_setup.h"
#include "launcher/cli/job_timeline.h"
#include "launcher/cli/started_once.h"
#include "launcher/job/forwarded_environment.h"
#include "launcher/process/worker_environment.h"
#include "runtime/base/text/counted.h"

namespace dabke::launcher {
namespace {

/// Seconds: a host that has vanished is to be noticed soon, because the others go on without it.
constexpr double kPeerTimeoutOfElasticJobs = 5;

using MaybeRefusal = std::optional<JobRefusal>;

MaybeRefusal refuse_usage(const Status& status) {
  return status.is_ok() ? std::nullopt : MaybeRefusal(JobRefusal{kUsageError, status.message()});
}

/// Plans step by step. Each step refuses the job, or adds its part to the plan.
class JobPlanner {
 public:
  JobPlanner(const Options& options, const Surroundings& surroundings)
      : options_(options),
        surroundings_(surroundings),
        environment_(environment_of(surroundings.environment)) {}

  MaybeRefusal plan();

  std::vector<std::string> notices;
  JobPlan job;

 private:
  MaybeRefusal find_hosts();
  MaybeRefusal place();
  MaybeRefusal plan_members();
  MaybeRefusal read_config();
  MaybeRefusal set_up();
  bool is_given(const std::string& name, const std::string& horovods) const;
  MaybeRefusal find_program() const;
  MaybeRefusal check_descriptors() const;
  void add_part(const std::vector<RankPlacement>& placements);
  PrepareMessage order_for(const std::vector<RankPlacement>& placements, bool is_here) const;
  std::vector<std::pair<std::string, std::string>> variables() const;
  std::int64_t peer_timeout_ms() const { return static_cast<std::int64_t>(job.config.peer_timeout * 1000); }

  const Options& options_;
  const Surroundings& surroundings_;
  const Environment environment_;
};

MaybeRefusal JobPlanner::plan() {
  if (options_.top && !surroundings_.is_stderr_terminal)
    return JobRefusal{
        kUsageError,
        "--top needs a terminal on stderr; without a terminal, use --top-port 0 and dabke-timeline top"};
  if (MaybeRefusal refusal = find_hosts()) return refusal;
  if (MaybeRefusal refusal = options_.elastic ? plan_members() : place()) return refusal;
  if (options_.launcher == "mpi") {
    job.kind = JobPlan::Kind::mpirun;
    return std::nullopt;
  }
  if (MaybeRefusal refusal = set_up()) return refusal;
  if (MaybeRefusal refusal = find_program()) return refusal;
  if (options_.dry_run) {
    job.kind = JobPlan::Kind::description;
    return std::nullopt;
  }
  return check_descriptors();
}

MaybeRefusal JobPlanner::find_hosts() {
  auto hosts = surroundings_.find_hosts(options_);
  if (!hosts.is_ok()) return refuse_usage(hosts.status());
  job.hosts = hosts.take();
  if (MaybeRefusal refusal = refuse_usage(check_started_once(environment_))) return refusal;
  if (options_.launcher != "mpi") notices = host_notices(job.hosts);
  return std::nullopt;
}

MaybeRefusal JobPlanner::place() {
  auto placed = place_ranks(job.hosts.hosts, options_.num_proc);
  if (!placed.is_ok()) return refuse_usage(placed.status());
  job.placements = placed.take();
  return refuse_usage(check_given_variables(options_.variables, surroundings_.environment,
                                            static_cast<int>(job.placements.size())));
}

/// An elastic job places its ranks while it runs.
MaybeRefusal JobPlanner::plan_members() {
  const ElasticOptions& given = *options_.elastic;
  if (options_.dry_run)
    return JobRefusal{kUsageError,
                      "--dry-run: the ranks of an elastic job are placed while it runs; leave it out"};
  if (MaybeRefusal refusal = read_config()) return refusal;
  if (!is_given("DABKE_PEER_TIMEOUT_SECONDS", "HOROVOD_PEER_TIMEOUT_SECONDS"))
    job.config.peer_timeout = kPeerTimeoutOfElasticJobs;
  int slots = 0;
  for (const Host& host : job.hosts.hosts) slots = add_slots(slots, host.slots);
  const int needed = std::max(given.min_np, options_.num_proc);
  const bool are_fixed = given.discovery_script.empty();
  if (!are_fixed && given.spares > 0 && given.max_np == 0)
    return JobRefusal{kUsageError, fmt::format("--spares {}: without --max-np, every slot that the script "
                                               "lists gets a rank; add --max-np",
                                               given.spares)};
  if (are_fixed && slots < needed + given.spares)
    return JobRefusal{kUsageError,
                      fmt::format("{} ranks{} were requested, but {} has {}", needed,
                                  given.spares > 0 ? " and " + counted(given.spares, "spare") : "",
                                  job.hosts.source, counted(slots, "slot"))};
  ElasticPlan& plan = job.elastic.emplace();
  plan.limits = {.first_np = needed,
                 .min_np = given.min_np,
                 .max_np = given.max_np > 0 ? given.max_np
                           : are_fixed      ? slots - given.spares
                                            : kMostRanks,
                 .spares = given.spares,
                 .reset_limit = given.reset_limit,
                 .wait_limit = given.wait_limit,
                 .least_cooldown = given.least_cooldown,
                 .most_cooldown = given.most_cooldown};
  if (!given.discovery_script.empty())
    plan.discovery = {.script = given.discovery_script, .slots_per_host = std::max(given.slots_per_host, 1)};
  return std::nullopt;
}

MaybeRefusal JobPlanner::read_config() {
  const auto config = config_of(options_, environment_);
  if (!config.is_ok()) return refuse_usage(config.status());
  job.config = *config;
  return std::nullopt;
}

bool JobPlanner::is_given(const std::string& name, const std::string& horovods) const {
  return environment_(name) || environment_(horovods) ||
         std::ranges::find(options_.knobs, name, &std::pair<std::string, std::string>::first) !=
             options_.knobs.end() ||
         std::ranges::find(options_.variables, name, &GivenVariable::name) != options_.variables.end();
}

MaybeRefusal JobPlanner::set_up() {
  const std::string& here = job.hosts.here;
  // On a single host, the ranks themselves report errors in their variables.
  if (!std::ranges::all_of(job.placements, [&](const auto& each) { return each.host == here; })) {
    if (MaybeRefusal refusal = read_config()) return refusal;
  }
  const auto shell = shell_of(options_, surroundings_.own_program);
  if (!shell.is_ok()) return JobRefusal{1, shell.status().message()};
  job.shell = *shell;
  if (options_.pty) {
    job.stdout_kind = *options_.pty ? StdoutKind::terminal : StdoutKind::pipe;
  } else if (surroundings_.is_stdout_terminal) {
    job.stdout_kind = StdoutKind::terminal_if_any;
  }
  job.may_erase = environment_("TERM").value_or("dumb") != "dumb";
  // Uses colours if the terminal supports them and the user does not object (https://no-color.org).
  job.style = {.prefix = options_.prefix,
               .timestamps = options_.timestamps,
               .is_coloured = job.may_erase && environment_("NO_COLOR").value_or("").empty()};
  job.timeline = recorded_timeline(options_, environment_);
  // Placements are in the order of the hosts.
  for (auto rest = job.placements.begin(); rest != job.placements.end();) {
    const auto end = std::find_if(rest, job.placements.end(),
                                  [&](const RankPlacement& each) { return each.host != rest->host; });
    add_part({rest, end});
    rest = end;
  }
  if (job.elastic) {
    job.elastic->order_here = order_for({}, true);
    job.elastic->order_elsewhere = order_for({}, false);
  }
  return std::nullopt;
}

/// Checks that the program exists on this host. The agents of other hosts check it there.
MaybeRefusal JobPlanner::find_program() const {
  if (std::ranges::none_of(job.parts, &HostPlan::is_here) && !job.elastic) return std::nullopt;
  const auto& own = surroundings_.environment;
  const std::string path = variable_in(with_given_variables(own, own, options_.variables), "PATH");
  const std::string& name = options_.command.front();
  const ProgramSearch program = surroundings_.find_program(name, path.empty() ? kStandardPath : path);
  if (!program.path.empty()) return std::nullopt;
  const bool is_doctor = name == kDoctor;
  return JobRefusal{
      program.exit_code,
      program.message + (is_doctor ? "; put the doctor before all options: dabkerun doctor" : "")};
}

/// Refuses a job with too many ranks. A job that runs out of descriptors half-way ends much later, with ranks
/// that wait for each other.
MaybeRefusal JobPlanner::check_descriptors() const {
  // Standard streams, signals, dumps, the store's own descriptors, and those of a fork in progress.
  constexpr rlim_t kOwn = 16;
  // The channel, two streams and a connection to the store; two files.
  const rlim_t of_rank = options_.output_directory.empty() ? 4 : 6;
  const rlim_t ranks =
                   job.elastic ? static_cast<rlim_t>(job.elastic->limits.first_np) : job.placements.size(),
               open = surroundings_.inherited_descriptors;
  const rlim_t needed = kOwn + ranks * of_rank;
  if (needed + open <= surroundings_.most_descriptors) return std::nullopt;
  return JobRefusal{
      1, fmt::format("{} ranks need {} file descriptors in dabkerun{}, but its hard limit is {} (ulimit "
                     "-Hn): raise that limit or start fewer ranks",
                     ranks, needed, open == 0 ? "" : fmt::format(" besides {} that it inherited", open),
                     surroundings_.most_descriptors)};
}

void JobPlanner::add_part(const std::vector<RankPlacement>& placements) {
  HostPlan& part = job.parts.emplace_back();
  part.host = placements.front().host;
  part.is_here = part.host == job.hosts.here;
  part.order = order_for(placements, part.is_here);
}

PrepareMessage JobPlanner::order_for(const std::vector<RankPlacement>& placements, bool is_here) const {
  const std::vector<std::string>& own = surroundings_.environment;
  PrepareMessage order{.command = options_.command,
                       .environment = with_given_variables(is_here ? own : forwarded_environment(own), own,
                                                           options_.variables),
                       .variables = variables(),
                       .bind_to = options_.bind_to.value_or(BindTo::automatic),
                       .verbose = options_.verbose,
                       .stdout_kind = job.stdout_kind,
                       .grace_ms = options_.grace.value_or(kGracePeriod).count(),
                       .is_elastic = job.elastic.has_value(),
                       .stop_limit_ms = job.elastic ? peer_timeout_ms() : 0};
  for (const RankPlacement& placement : placements)
    order.ranks.push_back({placement, variables_of_rank(options_.variables, placement.rank)});
  if (is_here) return order;
  order.keeps_own_variables = true;
  order.directory = surroundings_.directory();
  order.peer_timeout_ms = peer_timeout_ms();
  return order;
}

/// Returns the variables that flags set, and those with which dabkerun describes itself.
std::vector<std::pair<std::string, std::string>> JobPlanner::variables() const {
  auto variables = options_.knobs;
  if (!job.timeline.empty()) variables.emplace_back("DABKE_MERGES_TIMELINE", job.timeline);
  if (options_.top) variables.emplace_back("DABKE_TOP", "launcher");
  if (job.elastic)
    variables.emplace_back("DABKE_PEER_TIMEOUT_SECONDS", fmt::format("{:g}", job.config.peer_timeout));
  return variables;
}

}  // namespace

std::vector<RankPlacement> HostPlan::placements() const {
  std::vector<RankPlacement> placements;
  for (const RankOrder& rank : order.ranks) placements.push_back(rank.placement);
  return placements;
}

std::vector<std::string> JobPlan::names_elsewhere() const {
  std::vector<std::string> names;
  for (const HostPlan& part : parts) {
    if (!part.is_here) names.push_back(part.host);
  }
  if (!elastic) return names;
  for (const Host& host : hosts.by_slurm ? hosts.slurm_hosts : hosts.hosts) {
    if (host.name != hosts.here) names.push_back(host.name);
  }
  return names;
}

Planning plan_job(const Options& options, const Surroundings& surroundings) {
  JobPlanner planner(options, surroundings);
  MaybeRefusal refusal = planner.plan();
  if (refusal) return {std::move(planner.notices), std::move(*refusal)};
  return {std::move(planner.notices), std::move(planner.job)};
}

}  // namespace dabke::launcher
