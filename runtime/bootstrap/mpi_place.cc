#include "runtime/bootstrap/mpi_place.h"

#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "runtime/bootstrap/exchange_start.h"
#include "runtime/modules/module_loader.h"

namespace dabke::bootstrap {
namespace {

/// The place to meet, which MPI keeps for later starts over the same communicator.
std::string note_of(const ServedStore& store) {
  return fmt::format("{}\n{}\n{}", store.rendezvous, store.job_id, store.job_key);
}

/// The first start of these ranks: MPI carries the exchange.
Status exchange_over(modules::MpiSession& session, const Config& config, const std::string& host,
                     TimePoint deadline, MpiStart& start) {
  bool is_interrupted = false;
  ExchangeGroup group;
  group.number = start.rank;
  group.count = start.size;
  group.members.resize(static_cast<std::size_t>(start.size));
  std::iota(group.members.begin(), group.members.end(), 0);
  group.allgather = [&](std::span<const char> mine, std::span<char> all) {
    const Status status = session.allgather(mine, all, deadline);
    is_interrupted = is_interrupted || !status.is_ok();
    return status;
  };
  group.store = StoreUse::of_its_own;
  group.resumes = true;
  auto started = start_by_exchange(config, group, host);
  if (!is_interrupted) session.agree(started.is_ok() ? note_of(started->store) : "");
  if (!started.is_ok()) return started.status();
  start.store = started->store;
  start.roster = Roster{started->epoch, std::move(started->hosts)};
  return {};
}

}  // namespace

Result<std::optional<MpiStart>> start_from_mpi(const Config& config, const Environment& environment,
                                               const void* comm, const std::string& host,
                                               TimePoint deadline) {
  const modules::MpiTraces traces = modules::find_mpi(environment);
  if (comm != nullptr && traces.loaded.empty()) {
    return Status(
        Code::invalid_argument,
        "dabke_init: mpi_comm is given, but neither MPICH nor Open MPI is in this process; link the "
        "application to the shared library of one of them, or leave mpi_comm NULL");
  }
  if (comm == nullptr && traces.launcher.empty() && !traces.is_initialised) return std::optional<MpiStart>();
  auto loaded = modules::load_mpi(config, traces);
  if (!loaded) {
    const auto count = traces.is_initialised ? std::nullopt : environment(traces.variable);
    // This process is alone, and needs no MPI for that.
    if (comm == nullptr && count && *count == "1") return std::optional<MpiStart>();
    return Status(loaded.status().code(),
                  fmt::format("{}, but {}; or start with dabkerun, which needs no MPI",
                              comm != nullptr ? std::string("mpi_comm is given")
                              : traces.is_initialised
                                  ? std::string("the application has initialised MPI")
                                  : fmt::format("an MPI launcher has started this process ({} is {})",
                                                traces.variable, count.value_or("")),
                              loaded.status().message()));
  }
  modules::MpiSession& session = **loaded;
  DABKE_ASSIGN_OR_RETURN(const modules::MpiPlace place, session.enter(comm));
  MpiStart start{&session, place.rank, place.size, {}, {}};
  if (place.agreed.empty()) {
    DABKE_RETURN_IF_ERROR(exchange_over(session, config, host, deadline, start));
    return std::optional(std::move(start));
  }
  const auto lines = lines_of(place.agreed);
  if (lines.size() != 3) return Status(Code::internal, "MPI kept an invalid note");
  start.store = {lines[0], lines[1], lines[2]};
  return std::optional(std::move(start));
}

void begin_mpi_job(modules::MpiSession& session, const World& world, const Log& log) {
  const bool is_first = session.job_begins();
  if (!is_first || session.any_thread() || world.rank != 0) return;
  log.warning(
      "the application initialised MPI with {}, so MPI only starts the job: it neither negotiates nor moves "
      "data. To use it for these, call MPI_Init_thread with MPI_THREAD_MULTIPLE",
      session.thread_level());
}

std::optional<std::string_view> setting_that_uses_mpi(const Config& config) {
  if (config.controller == Controller::mpi) return "DABKE_CONTROLLER=mpi";
  if (config.cpu_operations == "mpi") return "DABKE_CPU_OPERATIONS=mpi";
  return std::nullopt;
}

}  // namespace dabke::bootstrap
