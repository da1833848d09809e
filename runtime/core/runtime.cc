#include "runtime/core/runtime.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "runtime/base/text/core_list.h"
#include "runtime/base/threads/exceptions.h"
#include "runtime/base/threads/floating_point.h"
#include "runtime/bootstrap/mpi_place.h"
#include "runtime/call/process_set_list.h"
#include "runtime/call/request_check.h"
#include "runtime/control/link_channel.h"
#include "runtime/control/mpi_channel.h"
#include "runtime/core/submit_check.h"
#include "runtime/store/init_failure.h"

namespace dabke::core {
namespace {

constexpr Duration kDescribeTime = std::chrono::seconds(1);
constexpr Duration kLastStoreWords = std::chrono::seconds(2);

/// The members of this epoch of an elastic job, for the files of the timeline.
std::optional<timeline::EpochRoster> roster_of(const std::optional<bootstrap::EpochPlan>& plan) {
  if (!plan) return std::nullopt;
  timeline::EpochRoster roster;
  for (const auto& member : plan->members) roster.members.push_back({member.former_rank, member.host});
  for (const auto& lost : plan->lost) roster.lost.push_back({lost.rank, lost.host, lost.why});
  return roster;
}

}  // namespace

Result<std::unique_ptr<control::ControlChannel>> Runtime::make_channel(const BackendContext& context) {
  const std::vector<Rank> neighbours =
      topology_of(context.world, context.config)->neighbours(context.world.rank);
  if (context.config.controller == Controller::mpi) {
    return control::MpiChannel::open(context.mpi, context.world, neighbours, context.config, context.store,
                                     context.fork_guard, context.log);
  }
  return control::LinkChannel::open(context.world, neighbours, context.config, context.store,
                                    context.fork_guard, context.log);
}

Result<std::unique_ptr<Runtime>> Runtime::open(const Config& config, const Environment& environment,
                                               const Factories& factories, const void* mpi_comm,
                                               ProcessParts process) {
  DABKE_ASSIGN_OR_RETURN(bootstrap::Bootstrapped bootstrapped,
                         bootstrap::bootstrap(config, environment, mpi_comm, process.init_check));
  return open(config, std::move(bootstrapped), factories, std::move(process));
}

Result<std::unique_ptr<Runtime>> Runtime::open(const Config& config, bootstrap::Bootstrapped bootstrapped,
                                               const Factories& factories, ProcessParts process) {
  const DefaultFloatingPoint floats;
  std::unique_ptr<Runtime> runtime(new Runtime(config, std::move(bootstrapped), std::move(process)));
  if (Status started = runtime->start(factories); !started.is_ok()) {
    runtime->bootstrapped_.store->hurry(kLastStoreWords);
    store::report_init_failure(*runtime->bootstrapped_.store, runtime->world().rank, started);
    if (runtime->coordinator_) runtime->fail_init(started);
    return started;
  }
  return runtime;
}

Runtime::Runtime(const Config& config, bootstrap::Bootstrapped bootstrapped, ProcessParts process)
    : config_(config),
      bootstrapped_(std::move(bootstrapped)),
      heap_(std::move(process.heap)),
      log_(bootstrap::log_of_rank(config, world().rank)),
      fork_guard_(std::move(process.fork_guard)),
      recorder_(std::move(process.recorder)),
      reporter_({world(), config_, *recorder_, std::move(process.stacks),
                 bootstrapped_.gathers_dumps ? bootstrapped_.store : nullptr, log_,
                 bootstrapped_.exit_status_of}),
      process_sets_(world().rank, world().size),
      active_timeline_(std::move(process.timeline)),
      timeline_(config_, world(), bootstrapped_.merges_timeline, *active_timeline_, log_,
                roster_of(bootstrapped_.plan)) {
  if (bootstrapped_.plan) {
    recorder_->record(diagnosis::FlightEvent::What::epoch, CollectiveKind::barrier, kWorldSet,
                      bootstrapped_.plan->epoch, 0, 0,
                      fmt::format("rank {} of {}", world().rank, world().size));
  }
}

Runtime::~Runtime() { (void)shut_down(); }

Status Runtime::start(const Factories& factories) {
  const BackendContext context{world(), config_,           bootstrapped_.store, *fork_guard_,
                               log_,    bootstrapped_.mpi, heap_.get()};
  DABKE_RETURN_IF_ERROR(parse_core_list(config_.thread_affinity, "DABKE_THREAD_AFFINITY").status());
  FirstSets first_sets = bootstrapped_.process_sets;
  if (!bootstrapped_.plan) {
    DABKE_ASSIGN_OR_RETURN(auto configured, parse_process_sets(config_.process_sets, world().size));
    for (auto& ranks : configured) first_sets.sets.push_back({first_sets.next_id++, std::move(ranks)});
  }
  process_sets_.begin(first_sets);
  DABKE_ASSIGN_OR_RETURN(backends_, factories.backends(context));
  DABKE_ASSIGN_OR_RETURN(auto channel, factories.channel(context));
  const Status traced = timeline_.start_with_job();
  if (bootstrapped_.mpi != nullptr) bootstrap::begin_mpi_job(*bootstrapped_.mpi, world(), log_);
  if (factories.device_route) device_route_ = factories.device_route(context);
  DABKE_ASSIGN_OR_RETURN(coordinator_, Coordinator::open({world(),
                                                          config_,
                                                          std::move(channel),
                                                          backends_,
                                                          factories.open_device,
                                                          process_sets_,
                                                          std::move(first_sets),
                                                          {config_, world().hosts, statistics_, profile_,
                                                           *recorder_, reporter_, log_, timeline_}}));
  timeline_.listen(
      [this](wire::TimelineChange change, std::uint64_t from) {
        return coordinator_->change_timeline(std::move(change), from);
      },
      [this](std::string path) { coordinator_->timeline_merged(std::move(path)); });
  DABKE_RETURN_IF_ERROR(traced);  // returned only now, when the coordinator can notify the other ranks
  if (const auto setting = bootstrap::setting_that_uses_mpi(config_); bootstrapped_.mpi != nullptr && setting)
    bootstrapped_.mpi->on_finalize([this, setting = *setting] { end_with_mpi(setting); });
  if (!config_.dump_signal.empty()) {
    DABKE_ASSIGN_OR_RETURN(dump_signal_,
                           diagnosis::DumpSignal::open(config_.dump_signal, [this](const std::string& name) {
                             ask_for_dumps(fmt::format("rank {} received {}", world().rank, name));
                           }));
  }
  if (!config_.top.empty() && world().rank == negotiation::Negotiator::kRoot) {
    DABKE_ASSIGN_OR_RETURN(
        live_statistics_server_,
        diagnosis::LiveStatisticsServer::open(
            {world(), config_.top, bootstrapped_.gathers_dumps ? bootstrapped_.store : nullptr, *fork_guard_,
             log_, [this] { coordinator_->gather_figures(); },
             [this](Duration limit) { return coordinator_->figures(limit); }}));
  }
  if (bootstrapped_.announcements != nullptr) {
    DABKE_ASSIGN_OR_RETURN(
        change_watch_,
        ChangeWatch::open(bootstrapped_.announcements, bootstrapped_.plan->change,
                          [this](std::uint64_t changes) { coordinator_->announce_changes(changes); }));
  }
  if (!bootstrapped_.network.empty()) log_.info("{}", bootstrapped_.network);
  log_.debug("{}, of {}, epoch {}, control over {}", world().name_of(world().rank), world().size,
             world().epoch, coordinator_->channel_name());
  bootstrapped_.store->init_is_over();
  return {};
}

/// Notifies the ranks that are already linked to this rank and may be past their init.
void Runtime::fail_init(const Status& why) {
  coordinator_->abort(store::init_failure_of(world().name_of(world().rank), why));
}

/// Called when the application ends MPI, while it negotiates or moves data for the job. The other ranks must
/// receive the cause while MPI still carries messages.
void Runtime::end_with_mpi(std::string_view setting) {
  Status cause(
      Code::aborted,
      fmt::format("rank {} called MPI_Finalize before dabke_shutdown, in a job that uses MPI ({}); call "
                  "dabke_shutdown first",
                  world().rank, setting));
  coordinator_->abort(std::move(cause));  // the coordinator prints the cause
  // The first answer shows that the coordinator has taken the abort. The second answer shows that it has sent
  // the messages that follow from the abort.
  for (int turn = 0; turn < 2; ++turn) (void)coordinator_->describe("MPI_Finalize was called", kDescribeTime);
}

std::vector<std::string_view> Runtime::backend_names() const {
  std::vector<std::string_view> names;
  for (const auto& backend : backends_.host) names.push_back(backend->name());
  for (const auto& backend : backends_.device) names.push_back(backend->name());
  return names;
}

Status Runtime::refuse(const Operation& operation, Status why) {
  const Request& request = *operation.request;
  const auto set = request.kind == CollectiveKind::send_recv ? process_sets_.find_or_meet(request.process_set)
                                                             : process_sets_.find(request.process_set);
  const std::string& group = operation.extras().group;
  const bool has_names = check_name(request.kind, "name", request.name).is_ok() &&
                         (group.empty() || check_name(request.kind, "group's name", group).is_ok());
  if (!has_names || !(moves_data(request.kind) || request.kind == CollectiveKind::barrier) || !set ||
      set->rank < 0)
    return why;
  auto refusal = OperationRef::adopt(new Operation);
  Request& refused_request = *refusal->request;
  refused_request.kind = request.kind;
  refused_request.name = request.name;
  refused_request.process_set = request.process_set;
  refused_request.is_group = request.is_group;
  for (const TensorSpec& tensor : request.tensors) refused_request.tensors.push_back({.name = tensor.name});
  refused_request.refused = why;
  if (!group.empty()) {
    refusal->make_extras().group = group;
    refusal->make_extras().group_size = operation.extras().group_size;
  }
  refusal->submitted_at = Clock::now();
  (void)coordinator_->submit(std::move(refusal), Coordinator::Wake::at_once);
  return why;
}

Status Runtime::submit(OperationRef operation, Coordinator::Wake wake) {
  if (!operation->inputs.empty()) operation->request->device_type = operation->inputs[0].device.type;
  if (operation->request->device_type != DeviceType::host) operation->request->device_route = device_route_;
  if (operation->request->kind == CollectiveKind::allreduce) {
    operation->request->compression = operation->compression.value_or(config_.compression);
  }
  if (Status checked = check_operation(*operation, process_sets_, coordinator_->lanes()); !checked.is_ok())
    return refuse(*operation, std::move(checked));
  if (const auto& device = operation->extras().join_device) {
    // Programs pass their local rank, with GPUs or without. A device that does not exist here means the host.
    const Status opened = coordinator_->lanes().open(*device, operation->request->process_set);
    if (!opened.is_ok() && opened.code() != Code::unsupported) return opened;
  }
  hold_memory(*operation);
  const Device device = operation->inputs.empty() ? Device() : operation->inputs[0].device;
  const bool is_on_host = device.type == DeviceType::host;
  const ProfilerRange range(is_on_host ? nullptr : &coordinator_->lanes().stream_of(device),
                            [&] { return "submit " + name_of_call(*operation->request); });
  operation->submitted_at = Clock::now();
  active_timeline_->submitted(*operation->request);
  return coordinator_->submit(std::move(operation), wake);
}

Status Runtime::run(const OperationRef& operation) {
  DABKE_RETURN_IF_ERROR(submit(operation, Coordinator::Wake::left_to_help));
  coordinator_->help(*operation, kNever, nullptr, Coordinator::Wake::left_to_help);
  operation->wait_until(kNever);
  received(*operation);
  return operation->status();
}

/// Keeps registered memory from being freed before the operation has completed.
void Runtime::hold_memory(Operation& operation) {
  for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
    const void* const input = operation.inputs[i].data;
    const void* const output = operation.outputs[i].data;
    if (auto use = heap_->use(input)) operation.uses.push_back(std::move(use));
    if (output == input) continue;
    if (auto use = heap_->use(output)) operation.uses.push_back(std::move(use));
  }
}

void Runtime::see_changes(std::uint64_t changes) {
  std::uint64_t seen = changes_.load(std::memory_order_relaxed);
  while (seen < changes && !changes_.compare_exchange_weak(seen, changes, std::memory_order_relaxed)) {
  }
}

std::uint64_t Runtime::announced_changes() const {
  const std::uint64_t before = bootstrapped_.plan ? bootstrapped_.plan->change : 0;
  return std::max(changes_.load(std::memory_order_relaxed), before) - before;
}

void Runtime::abort(std::string reason) {
  coordinator_->abort(
      {Code::aborted, fmt::format("{} aborted the job: {}", world().name_of(world().rank), reason)});
}

Status Runtime::start_timeline(const std::string& path, bool mark_cycles) {
  return timeline_.start(path, mark_cycles);
}

Status Runtime::stop_timeline() { return timeline_.stop(); }

Status Runtime::dump(const std::string& path) {
  return reporter_.write_to(coordinator_->describe("dabke_dump was called", kDescribeTime), path);
}

void Runtime::print_profile() const {
  if (!config_.profile || world().rank != negotiation::Negotiator::kRoot) return;
  const double seconds = std::chrono::duration<double>(Clock::now() - opened_at_).count();
  std::fputs(profile_.to_text(world().size, seconds).c_str(), stderr);
}

Status Runtime::shut_down(JobEnd end) noexcept {
  if (!coordinator_ || std::exchange(left_, true)) return {};
  dump_signal_.reset();
  live_statistics_server_.reset();
  change_watch_.reset();
  if (bootstrapped_.mpi != nullptr) bootstrapped_.mpi->on_finalize(nullptr);
  coordinator_->shut_down();
  // A store that does not answer delays neither a report that is on its way to it, nor the steps below.
  bootstrapped_.store->hurry(kLastStoreWords);
  reporter_.stop();
  (void)attempt([&] { print_profile(); });
  if (bootstrapped_.mpi != nullptr && coordinator_->ended_well()) bootstrapped_.mpi->job_ended_well();
  // This only tidies up, so an error of the store does not matter.
  (void)without_exceptions([&] { return bootstrap::leave_epoch(bootstrapped_); });
  return without_exceptions([&]() -> Status {
    timeline_.close(end == JobEnd::shutdown);
    return {};
  });
}

}  // namespace dabke::core
