#include "runtime/bootstrap/bootstrap.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "runtime/base/ended_rank.h"
#include "runtime/base/hmac.h"
#include "runtime/base/settings/variable_names.h"
#include "runtime/bootstrap/host_addresses.h"
#include "runtime/bootstrap/mpi_place.h"
#include "runtime/bootstrap/other_launchers.h"
#include "runtime/bootstrap/place.h"
#include "runtime/bootstrap/place_in_epoch.h"
#include "runtime/bootstrap/pmi2_start.h"
#include "runtime/bootstrap/process_sets_in_epoch.h"
#include "runtime/bootstrap/roster.h"
#include "runtime/modules/module_loader.h"
#include "runtime/store/checked_store.h"
#include "runtime/store/http_store.h"
#include "runtime/store/init_failure.h"
#include "runtime/store/init_watch.h"
#include "runtime/store/job_secret.h"

namespace dabke::bootstrap {
namespace {

/// The limit for leaving an epoch. A store that does not answer by then keeps the epoch's entries.
constexpr Duration kTidyingLimit = std::chrono::seconds(1);
constexpr std::string_view kFileScheme = "file:";
constexpr std::string_view kHttpScheme = "http://";

/// True if MPI belongs to this launcher's job, and not to a job inside which the launcher runs.
bool may_meet_by_mpi(const OtherLauncher& launcher, const Environment& environment) {
  const modules::MpiTraces traces = modules::find_mpi(environment);
  if (traces.is_initialised) return true;
  return !traces.launcher.empty() && environment(traces.variable) == std::to_string(launcher.size);
}

/// True if Slurm's PMI-2 belongs to this launcher's job and this process has no MPI, which would use PMI-2
/// itself.
bool may_meet_by_pmi2(const OtherLauncher& launcher, const Environment& environment) {
  const modules::MpiTraces traces = modules::find_mpi(environment);
  return traces.loaded.empty() && !traces.is_initialised &&
         environment("PMI_SIZE") == std::to_string(launcher.size) &&
         environment("PMI_RANK") == std::to_string(launcher.rank);
}

void take_store(PlaceInJob& place, const ServedStore& store) {
  if (!store.rendezvous.empty()) place.rendezvous = store.rendezvous;
  place.job_id = Variable{"the job's id", store.job_id};
  place.job_key = Variable{"the job's key", store.job_key};
}

/// Takes the place from MPI or PMI-2 if the environment does not give it, or if the application has passed a
/// communicator.
Status ask_mpi(PlaceInJob& place, const Config& config, const Environment& environment, const void* comm,
               TimePoint deadline) {
  if (comm == nullptr && (look_up(environment, "RANK") || look_up(environment, "SIZE") || place.rendezvous))
    return {};
  const auto other = comm == nullptr ? find_other_launcher(environment) : std::nullopt;
  const bool is_one_of_many = other && other->size > 1;
  if (is_one_of_many && may_meet_by_pmi2(*other, environment)) {
    DABKE_ASSIGN_OR_RETURN(auto met, start_from_pmi2(config, environment, place.host, deadline));
    if (met) {
      place.rank = met->rank;
      place.size = met->size;
      take_store(place, met->store);
      place.roster = std::move(met->roster);
      return {};
    }
  }
  if (is_one_of_many && !may_meet_by_mpi(*other, environment)) return cannot_meet(*other);
  DABKE_ASSIGN_OR_RETURN(const auto start, start_from_mpi(config, environment, comm, place.host, deadline));
  if (is_one_of_many && (!start || start->size == 1)) return cannot_meet(*other);
  if (!start) return {};
  place.mpi = start->session;
  place.rank = start->rank;
  place.size = start->size;
  take_store(place, start->store);
  place.roster = start->roster;
  return {};
}

Result<store::JobSecret> secret_of(const PlaceInJob& place) {
  return store::parse_job_secret(place.job_id->value, place.job_key->value);
}

/// The store of all jobs, and the secret of this one.
struct Rendezvous {
  std::shared_ptr<store::Store> store;
  store::JobSecret secret;
};

Result<Rendezvous> open_rendezvous(const PlaceInJob& place, TimePoint deadline) {
  Rendezvous found;
  if (!place.rendezvous) {
    found.store = store::make_memory_store();
    DABKE_ASSIGN_OR_RETURN(found.secret, place.job_id ? secret_of(place) : store::random_job_secret());
    return found;
  }
  const std::string& address = *place.rendezvous;
  if (address.starts_with(kFileScheme)) {
    const std::string directory = address.substr(kFileScheme.size());
    DABKE_ASSIGN_OR_RETURN(found.store, store::open_file_store(directory));
    DABKE_ASSIGN_OR_RETURN(found.secret, place.job_id ? secret_of(place) : store::job_secret_in(directory));
    return found;
  }
  if (!address.starts_with(kHttpScheme)) {
    return Status(Code::invalid_argument,
                  fmt::format("DABKE_RENDEZVOUS is '{}', but must be http://host:port or "
                              "file:/absolute/directory",
                              address));
  }
  if (!place.job_id) {
    return Status(Code::invalid_argument,
                  fmt::format("DABKE_RENDEZVOUS is '{}' but DABKE_JOB_ID and DABKE_JOB_KEY are not set; set "
                              "them to the values of the launcher that serves it, or start with dabkerun",
                              address));
  }
  DABKE_ASSIGN_OR_RETURN(found.secret, secret_of(place));
  DABKE_ASSIGN_OR_RETURN(found.store,
                         store::open_http_store(address, found.secret.id, found.secret.key, deadline));
  return found;
}

/// `plan` is null unless the job is elastic. A process then has another rank in each epoch.
std::function<std::optional<int>(Rank, TimePoint)> exit_statuses(
    std::shared_ptr<store::Store> job, const std::vector<links::ProcessIdentity>& processes,
    const EpochPlan* plan) {
  std::vector<std::string> keys;
  for (std::size_t rank = 0; rank < processes.size(); ++rank)
    keys.push_back(plan != nullptr ? end_key(plan->members[rank].worker)
                                   : ended_key(static_cast<Rank>(rank)));
  return [job = std::move(job), processes, keys](Rank rank, TimePoint deadline) -> std::optional<int> {
    const auto record = job->get(keys[static_cast<std::size_t>(rank)], deadline);
    const auto ended = record.is_ok() ? read_ended_rank(*record) : std::nullopt;
    if (!ended || ended->pid != processes[static_cast<std::size_t>(rank)].pid) return std::nullopt;
    return ended->status;
  };
}

/// The placement of a rank among the ranks of its host, and among the ranks of its own local rank.
HostPlacement placement_among(const std::vector<std::string>& hosts, Rank self) {
  const auto local_rank_of = [&](std::size_t rank) {
    return static_cast<int>(
        std::count(hosts.begin(), hosts.begin() + static_cast<std::ptrdiff_t>(rank), hosts[rank]));
  };
  const auto me = static_cast<std::size_t>(self);
  HostPlacement placement{local_rank_of(me), static_cast<int>(std::ranges::count(hosts, hosts[me])), 0, 0};
  std::map<std::string_view, int> seen;  // the ranks of each host so far
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    if (seen[hosts[rank]]++ != placement.local_rank) continue;
    if (rank < me) ++placement.cross_rank;
    ++placement.cross_size;
  }
  return placement;
}

bool equally_filled(const std::vector<std::string>& hosts) {
  std::map<std::string_view, int> ranks;
  for (const auto& host : hosts) ++ranks[host];
  return std::ranges::all_of(ranks, [&](const auto& entry) { return entry.second == ranks.begin()->second; });
}

/// Called before the ranks meet, because a misspelt variable may keep them from meeting.
void warn_of_misspelt_variables(const Config& config) {
  const std::vector<std::string> lines = misspelt_variables(variables_of_process());
  if (lines.empty()) return;
  const Log log = log_of_rank(config, 0);
  for (const std::string& line : lines) log.warning("{}", line);
}

/// Enters the epoch in which all ranks have met. `job` is the job's part of the store.
Result<Bootstrapped> enter(PlaceInJob place, std::optional<EpochPlan> plan, const store::JobSecret& secret,
                           const std::shared_ptr<store::Store>& job, const Config& config,
                           TimePoint deadline) {
  if (place.rank == 0) sweep(*job, place.roster->epoch);

  Bootstrapped joined;
  joined.mpi = place.mpi;
  joined.gathers_dumps = place.gathers_dumps;
  joined.merges_timeline = place.merges_timeline;
  const auto epoch = store::with_prefix(job, std::to_string(place.roster->epoch));
  World& world = joined.world;
  world.job_id = secret.id;
  world.job_key = secret.key;
  world.epoch = place.roster->epoch;
  world.rank = place.rank;
  world.size = place.size;
  world.hosts = std::move(place.roster->hosts);
  const HostPlacement placement =
      place.placement ? *place.placement : placement_among(world.hosts, place.rank);
  world.local_rank = placement.local_rank;
  world.local_size = placement.local_size;
  world.cross_rank = placement.cross_rank;
  world.cross_size = placement.cross_size;
  world.is_homogeneous = equally_filled(world.hosts);
  joined.plan = std::move(plan);
  if (place.gathers_dumps && !place.roster->processes.empty())
    joined.exit_status_of =
        exit_statuses(job, place.roster->processes, joined.plan ? &*joined.plan : nullptr);
  joined.store = store::watch_init(epoch, world, std::move(place.roster->processes));
  auto agreement = agree_on_address(world, config, *joined.store, deadline);
  if (!agreement.is_ok()) {
    store::report_init_failure(*joined.store, world.rank, agreement.status());
    return agreement.status();
  }
  AgreedAddress agreed = agreement.take();
  world.address = std::move(agreed.address);
  joined.network = std::move(agreed.table);
  return joined;
}

/// Meets the other ranks, unless they have met already.
Result<Bootstrapped> join(PlaceInJob place, const Config& config, TimePoint deadline,
                          const std::weak_ptr<WaitCheck>& check) {
  if (place.rank == 0) warn_of_misspelt_variables(config);
  DABKE_ASSIGN_OR_RETURN(const Rendezvous rendezvous, open_rendezvous(place, deadline));
  const auto job = store::with_prefix(store::with_check(rendezvous.store, check, place.size),
                                      to_hex(rendezvous.secret.id));
  if (!place.roster) {
    const Hello hello{place.rank, place.size, place.host, process_sets_of(config, place.size)};
    const Log log = log_of_rank(config, place.rank);
    const WaitReports reports{.write_line = [&](const std::string& line) { log.warning("{}", line); }};
    auto met = meet(*job, hello, config, deadline, reports);
    // dabkerun finds in this line which rank was the first cause.
    if (!met.is_ok() && met.status().code() == Code::peer_lost) log.error("{}", met.status().message());
    DABKE_ASSIGN_OR_RETURN(place.roster, std::move(met));
  }
  return enter(std::move(place), {}, rendezvous.secret, job, config, deadline);
}

/// Elastic jobs start without MPI.
Status refuse_mpi(std::string_view what) {
  return {
      Code::unsupported,
      fmt::format("{} does not work in an elastic job, because MPI ends with the first rank that is lost; "
                  "leave it out, or start with dabkerun without --min-np",
                  what)};
}

}  // namespace

Log log_of_rank(const Config& config, Rank rank) {
  return Log({config.log_level, config.log_hide_time, rank});
}

Result<Bootstrapped> bootstrap(const Config& config, const Environment& environment, const void* mpi_comm,
                               const std::weak_ptr<WaitCheck>& check) {
  if (is_elastic(environment)) {
    if (mpi_comm != nullptr) return refuse_mpi("mpi_comm");
    Visit visit;
    DABKE_ASSIGN_OR_RETURN(auto met, bootstrap(config, environment, visit, check));
    if (auto* const joined = std::get_if<Bootstrapped>(&met)) return std::move(*joined);
    return Status(Code::shut_down, std::get<LeftInOrder>(met).why);
  }
  const TimePoint deadline = deadline_after(config.start_timeout);
  PlaceInJob place;
  if (mpi_comm == nullptr) {
    DABKE_ASSIGN_OR_RETURN(place, place_from_environment(environment));
  } else {  // the environment's variables are about another job, of a launcher or of all processes
    DABKE_ASSIGN_OR_RETURN(place.host, host_name(environment));
  }
  DABKE_RETURN_IF_ERROR(ask_mpi(place, config, environment, mpi_comm, deadline));
  return join(std::move(place), config, deadline, check);
}

Result<Bootstrapped> bootstrap(const Config& config, const Environment& environment,
                               const ExchangeGroup& group, const std::weak_ptr<WaitCheck>& check) {
  if (is_elastic(environment)) {
    return fail_by_exchange(
        group, {Code::unsupported,
                "exchange does not work in an elastic job, because its processes change; leave it out, or "
                "start with dabkerun without --min-np"});
  }
  DABKE_ASSIGN_OR_RETURN(ExchangeStart start, start_by_exchange(config, group, host_name(environment)));
  PlaceInJob place;
  place.rank = start.rank;
  place.size = static_cast<int>(start.hosts.size());
  take_store(place, start.store);
  place.roster = Roster{start.epoch, std::move(start.hosts)};
  return join(std::move(place), config, deadline_after(config.start_timeout), check);
}

Result<std::variant<Bootstrapped, LeftInOrder>> bootstrap(const Config& config,
                                                          const Environment& environment, Visit& visit,
                                                          const std::weak_ptr<WaitCheck>& check) {
  using Joined = std::variant<Bootstrapped, LeftInOrder>;
  if (const auto setting = setting_that_uses_mpi(config)) return refuse_mpi(*setting);
  DABKE_ASSIGN_OR_RETURN(PlaceInJob place, place_from_environment(environment));
  DABKE_RETURN_IF_ERROR(parse_process_sets(config.process_sets, kMostProcesses).status());
  if (visit.number == 0 && place.worker == 0) warn_of_misspelt_variables(config);
  DABKE_ASSIGN_OR_RETURN(const Rendezvous rendezvous,
                         open_rendezvous(place, deadline_after(config.start_timeout)));
  const std::string id = to_hex(rendezvous.secret.id);
  const auto job = store::with_prefix(store::with_check(rendezvous.store, check, place.size), id);
  const Arrival arrival{
      .worker = *place.worker,
      .visit = ++visit.number,
      .epoch = visit.epoch,
      .commit = visit.commit,
      .repeated_steps = visit.repeated_steps,
      .host = place.host,
      .process = links::identity_of_this_process(),
      .process_sets = process_sets_to_text(process_sets_of(config, kMostProcesses), visit.process_sets)};
  DABKE_ASSIGN_OR_RETURN(auto met, come_to_meeting(*job, arrival, kNever));
  if (auto* const left = std::get_if<LeftInOrder>(&met)) return Joined(std::move(*left));
  auto& [plan, rank] = std::get<EpochPlace>(met);
  visit.epoch = plan.epoch;
  visit.process_sets = process_sets_in(plan, visit.process_sets);
  DABKE_RETURN_IF_ERROR(check_process_sets(plan));
  place.rank = rank;
  place.size = static_cast<int>(plan.members.size());
  place.placement = placement_in(plan, rank);
  place.roster = roster_of(plan);
  const TimePoint deadline = deadline_after(config.start_timeout);
  DABKE_ASSIGN_OR_RETURN(Bootstrapped joined,
                         enter(place, std::move(plan), rendezvous.secret, job, config, deadline));
  joined.process_sets = visit.process_sets;
  if (place.rank == 0) {
    DABKE_ASSIGN_OR_RETURN(const Rendezvous own, open_rendezvous(place, deadline));
    joined.announcements = store::with_prefix(own.store, id);
  }
  return Joined(std::move(joined));
}

Status leave_epoch(const Bootstrapped& joined) {
  joined.store->hurry(kTidyingLimit);
  store::report_clean_end(*joined.store, joined.world.rank);
  DABKE_ASSIGN_OR_RETURN(const std::uint64_t left, joined.store->increment("left"));
  if (left < static_cast<std::uint64_t>(joined.world.size)) return {};
  return joined.store->remove_all("");
}

}  // namespace dabke::bootstrap
