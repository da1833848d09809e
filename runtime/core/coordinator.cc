#include "runtime/core/coordinator.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/base/core_list.h"
#include "runtime/base/exceptions.h"
#include "runtime/base/thread.h"
#include "runtime/base/whereabouts.h"
#include "runtime/negotiation/wire.h"

namespace dabke {
namespace {

// One batch runs and one waits: more would only take tensors out of the next fused batch.
constexpr std::size_t kBusyTasks = 2;
// Whoever has left so many commands gives the core away for a moment: on one core the coordinator else comes
// to them a time slice later, when they are in no cache any more.
constexpr std::size_t kBacklog = 64;
// A run that fails because a peer died fails here before the peer's death is known; the cause deserves a
// moment.
constexpr Duration kCauseGrace = std::chrono::seconds(1);
// What the end of a job takes when there is no memory left. Never touched, so it costs none until then; large
// enough to be a mapping of its own, so that giving it back helps every thread.
constexpr std::size_t kReserveBytes = 1 << 20;

/// The batch sizes of the backend that runs most: the first that serves the world.
BatchSizes batch_sizes(const std::vector<std::unique_ptr<Backend>>& backends,
                       const ProcessSetTable& process_sets) {
  const auto world = process_sets.find(kWorldSet);
  const auto serves = [&](const auto& backend) { return backend->can_serve(*world); };
  const auto first = std::ranges::find_if(backends, serves);
  return first == backends.end() ? BatchSizes{} : (*first)->batch_sizes();
}

/// "its process 4711 is stopped", of a neighbour on this host.
std::string process_of(const ControlChannel& channel, Rank rank) {
  const int pid = channel.process_of(rank);
  return pid > 0 ? fmt::format("its process {} {}", pid, process_state(pid)) : "";
}

Machine::Options machine_options(const World& world, const Config& config, const BatchSizes& sizes,
                                 const ControlChannel& channel, std::vector<std::vector<Rank>> static_sets) {
  Machine::Options options;
  options.rank = world.rank;
  options.static_sets = std::move(static_sets);
  options.duplicates_are_errors = config.duplicate_names == "error";
  options.sequencer.fusion = {config.deterministic ? 0 : config.fusion_threshold, sizes.alone,
                              !config.disable_group_fusion};
  options.topology = Coordinator::topology_of(world, config);
  options.sequencer.linger_limit = seconds_to_duration(config.cycle_time / 1000);
  options.sequencer.cache_capacity = static_cast<std::size_t>(config.cache_capacity);
  if (options.sequencer.fusion.threshold > 0 && !config.disable_learned_batches) {
    options.sequencer.learned_batch_bytes =
        static_cast<std::size_t>(std::min<std::int64_t>(options.sequencer.fusion.threshold, sizes.learned));
  }
  if (!config.stall_check_disable) {
    options.stall_check = seconds_to_duration(config.stall_check_time);
    options.stall_shutdown = seconds_to_duration(config.stall_shutdown_time);
    options.gives_stacks = true;
    options.process_of = [&channel](Rank rank) { return process_of(channel, rank); };
  }
  return options;
}

}  // namespace

std::shared_ptr<const Topology> Coordinator::topology_of(const World& world, const Config& config) {
  return std::make_shared<const Topology>(world.size, world.hosts, static_cast<int>(config.tree_radix));
}

Coordinator::Coordinator(Parts parts)
    : world_(parts.world),
      config_(parts.config),
      channel_(std::move(parts.channel)),
      process_sets_(parts.process_sets),
      statistics_(parts.statistics),
      profile_(parts.profile),
      recorder_(parts.recorder),
      reporter_(parts.reporter),
      log_(parts.log),
      machine_(machine_options(parts.world, parts.config, batch_sizes(parts.backends, parts.process_sets),
                               *channel_, std::move(parts.static_sets))),
      timeline_(std::move(parts.timeline)),
      lane_(parts.backends, *this) {
  if (timeline_) machine_.record_readiness(++timelines_);
}

Result<std::unique_ptr<Coordinator>> Coordinator::open(Parts parts) {
  std::unique_ptr<Coordinator> coordinator(new Coordinator(std::move(parts)));
  if (const Status started = without_exceptions([&] { return coordinator->start(); }); !started) {
    (void)attempt([&] { coordinator->tell_all(started); });
    (void)attempt([&] { coordinator->channel_->close(Clock::now() + kCloseTime); });
    return started;
  }
  return coordinator;
}

Status Coordinator::start() {
  neighbours_ = topology_of(world_, config_)->neighbours(world_.rank);
  encode(FailMessage{Code::out_of_memory, of_this_rank(out_of_memory()).message()}, last_words_);
  DABKE_RETURN_IF_ERROR(reporter_.start());
  DABKE_RETURN_IF_ERROR(lane_.start());
  DABKE_RETURN_IF_ERROR(callbacks_.start([this](Status cause) { break_off(std::move(cause)); }));
  reserve_ = std::make_unique_for_overwrite<std::byte[]>(kReserveBytes);
  DABKE_ASSIGN_OR_RETURN(thread_, start_thread("dabke-coord", [this] { loop(); }));
  return {};
}

Status Coordinator::of_this_rank(const Status& cause) const {
  return {cause.code(), fmt::format("{}: {}", world_.name_of(world_.rank), cause.message())};
}

/// Ends the job on every other rank with this cause of ours, past the negotiation.
void Coordinator::tell_all(const Status& cause) {
  std::vector<std::byte> message;
  encode(FailMessage{cause.code(), of_this_rank(cause).message()}, message);
  send_to_all(message);
}

void Coordinator::send_to_all(std::span<const std::byte> message) {
  for (const Rank peer : neighbours_) channel_->send(peer, message);
}

Coordinator::~Coordinator() { shut_down(); }

Status Coordinator::submit(OperationRef operation, Wake wake) {
  const std::size_t tensors = std::max<std::size_t>(1, operation->request->tensors.size());
  // Not completed with an error instead: nobody is left to run its callback.
  if (!post(std::move(operation), wake)) {
    const std::lock_guard lock(inbox_mutex_);
    return closed_by_ ? Status(Code::shut_down, "dabke_shutdown was called on this rank") : closed_by_;
  }
  statistics_.tensors_submitted += tensors;
  return {};
}

void Coordinator::abort(Status cause) { post(std::move(cause)); }

void Coordinator::set_timeline(std::shared_ptr<Timeline> timeline) { post(std::move(timeline)); }

void Coordinator::shut_down() noexcept {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(inbox_mutex_);
    leaves_ = true;
  }
  wake();
  thread_.join();
}

bool Coordinator::post(Command command, Wake how) {
  std::size_t waiting = 0;
  {
    const std::lock_guard lock(inbox_mutex_);
    if (closed_) return false;
    inbox_.push_back(std::move(command));
    waiting = inbox_.size();
  }
  if (how == Wake::at_once) wake();
  if (waiting % kBacklog == 0) std::this_thread::yield();
  return true;
}

bool Coordinator::has_commands() {
  const std::lock_guard lock(inbox_mutex_);
  return leaves_ || !inbox_.empty();
}

void Coordinator::wake() {
  if (sleeping_.exchange(false)) channel_->wake();
}

void Coordinator::pin_thread() const {
  const auto cores = parse_core_list(config_.thread_affinity, "DABKE_THREAD_AFFINITY");  // checked at init
  const auto mine = static_cast<std::size_t>(world_.local_rank);
  if (!cores || mine >= cores->size()) return;
  if (const Status pinned = pin_this_thread((*cores)[mine]); !pinned) {
    log_.warning("DABKE_THREAD_AFFINITY={}: {}; the coordinator thread is not pinned",
                 config_.thread_affinity, pinned.message());
  }
}

void Coordinator::loop() noexcept {
  std::unique_lock baton(baton_);
  try {
    drive();
  } catch (...) {
    break_off(caught());
  }
  if (is_broken_) end_broken();
  callbacks_.stop();
  ended_ = true;
}

void Coordinator::drive() {
  pin_thread();
  while (true) {
    if (is_broken_) return;  // perhaps by a helper, in the middle of a round, before the first one here
    round();
    if (is_finished()) break;
    sleeping_ = true;
    channel_->poll(sleep_until(), *this, baton_);
    sleeping_ = false;
  }
  lane_.stop();
  channel_->close(Clock::now() + kCloseTime);
  {
    const std::lock_guard lock(inbox_mutex_);
    closed_ = true;
  }
  take_inbox();  // what came after the goodbye
  obey_commands(Clock::now());
  perform(machine_.take_actions(Clock::now()), Clock::now());
}

/// Everything that there is to do.
void Coordinator::round() {
  take_inbox();
  const TimePoint now = Clock::now();  // after all that was submitted
  obey_commands(now);
  look_for_long_runs(now);
  wants_room_ = true;  // before the lane is looked at, so that no end of a batch is missed
  machine_.set_data_plane_busy(DeviceType::host, lane_.outstanding() >= kBusyTasks);
  machine_.tick(now);
  std::vector<Action> actions = machine_.take_actions(now);
  record_readiness();  // before the orders that it led to
  perform(std::move(actions), now);
  record_profile();
  if (!machine_.holds_back()) wants_room_ = false;
  keeps_back_ = machine_.keeps_back();
  judge_failures(now);
}

/// A later time than before is not worth waking up for: the thread finds out when it wakes.
TimePoint Coordinator::sleep_until() {
  const TimePoint now = Clock::now();
  if (!nothing_to_do()) return now;
  const TimePoint next = next_deadline();
  if (next < sleeps_until_ || sleeps_until_ <= now) sleeps_until_ = next;
  return sleeps_until_;
}

bool Coordinator::is_finished() {
  if (!leaving_ || !machine_.is_over() || lane_.outstanding() != 0) return false;
  const std::lock_guard lock(failed_mutex_);
  return failed_.empty();
}

bool Coordinator::nothing_to_do() {
  // The lane may have taken wants_room_ down when nobody slept yet who could be woken, even for a batch that
  // had ended before the last look at it: it has to be up again before anybody sleeps, or the next end wakes
  // nobody.
  if (machine_.holds_back() && (lane_.outstanding() < kBusyTasks || !wants_room_)) return false;
  if (is_finished() || is_broken_) return false;
  {
    const std::lock_guard lock(failed_mutex_);
    if (!failed_.empty() && failed_since_ == kNever) return false;
  }
  return !has_commands();
}

TimePoint Coordinator::next_deadline() const {
  const TimePoint verdict = failed_since_ == kNever ? kNever : failed_since_ + kCauseGrace;
  return std::min({machine_.next_tick(), verdict, next_run_check_});
}

void Coordinator::take_inbox() {
  const std::lock_guard lock(inbox_mutex_);
  commands_.swap(inbox_);
  leaves_then_ = std::exchange(leaves_, false);
}

void Coordinator::obey_commands(TimePoint now) {
  for (Command& command : commands_) {
    if (auto* operation = std::get_if<OperationRef>(&command)) {
      accept(*operation, now);
    } else if (const auto* wanted = std::get_if<Want>(&command)) {
      machine_.want(wanted->process_set, wanted->name, now);
    } else if (auto* cause = std::get_if<Status>(&command)) {
      machine_.abort(*cause);
    } else if (auto* timeline = std::get_if<std::shared_ptr<Timeline>>(&command)) {
      record_readiness();  // the timeline's until now
      timeline_ = std::move(*timeline);
      machine_.record_readiness(timeline_ ? ++timelines_ : 0);
    } else if (const auto* asked = std::get_if<AskForDumps>(&command)) {
      machine_.ask_for_dumps(asked->reason, Machine::Dumped::as_asked, now);
    } else if (auto* question = std::get_if<Describe>(&command)) {
      question->answer->set_value(describe(std::move(question->reason), 0, machine_.snapshot(), now));
    } else if (const auto* stack = std::get_if<Stack>(&command)) {
      machine_.give_stack(stack->text, now);
    }
  }
  commands_.clear();  // keeps its memory for the next inbox
  if (std::exchange(leaves_then_, false)) {
    leaving_ = true;
    machine_.leave(now);
  }
}

/// The operation is still the caller's, or among the units, or both, where it throws.
void Coordinator::accept(OperationRef& operation, TimePoint now) {
  std::unique_ptr<Unit> unit;
  units_.make_room();
  if (operation->extras().group.empty()) {
    unit = std::make_unique<Unit>(std::move(operation));
  } else {
    const Operation::Extras& extras = operation->extras();
    Status taken = groups_.check(*operation);
    if (taken) taken = machine_.submit_member(operation->request, extras.group, extras.group_size, now);
    if (!taken) return complete(std::move(operation), taken);
    unit = groups_.add(operation);
    if (!unit) return;
  }
  unit->entry = units_.add(*unit);
  Unit* const accepted = unit.release();  // comes back in exactly one action
  RequestRef request = request_of(*accepted);
  accepted->tensors_left = request->tensors.size();
  recorder_.record(FlightEvent::What::submitted, request->kind, request->process_set, ++submitted_,
                   request->tensors.size(), request->size_bytes(), request->name,
                   accepted->first().submitted_at);
  machine_.submit(Token{reinterpret_cast<std::uintptr_t>(accepted)}, std::move(request), now);
}

void Coordinator::on_message(Rank peer, std::span<const std::byte> message) {
  ++statistics_.messages_received;
  if (is_broken_) return;  // since the baton was given away: it may be in the middle of a step
  machine_.message_from(peer, message, Clock::now());
}

void Coordinator::on_peer_lost(Rank peer, const Status& cause) {
  if (!is_broken_) machine_.peer_lost(peer, cause);
}

void Coordinator::perform(std::vector<Action> actions, TimePoint now) {
  for (Action& action : actions) {
    if (auto* send = std::get_if<SendAction>(&action)) {
      ++statistics_.messages_sent;
      channel_->send(send->peer, *send->message);
    } else if (auto* run = std::get_if<ExecuteAction>(&action)) {
      execute(*run, now);
    } else if (auto* done = std::get_if<CompleteAction>(&action)) {
      std::unique_ptr<Unit> unit(unit_of(done->token));
      unit->first().value = done->value;
      complete(std::move(unit), done->status);
    } else if (auto* set = std::get_if<ProcessSetAction>(&action)) {
      if (!set->ranks.empty()) {
        process_sets_.add(set->id, set->ranks);
      } else {
        auto run = std::make_unique<Run>();
        run->process_set = process_sets_.find(set->id);
        process_sets_.remove(set->id);
        if (run->process_set && run->process_set->rank >= 0) hand_over(std::move(run));
      }
    } else if (auto* warn = std::get_if<WarnAction>(&action)) {
      log_.warning("{}", warn->text);
      recorder_.note(warn->text);
    } else if (const auto* failed = std::get_if<FailGroupAction>(&action)) {
      for (OperationRef& member : groups_.take(failed->process_set, failed->group))
        complete(std::move(member), failed->status);
    } else if (const auto* asked = std::get_if<DumpAction>(&action)) {
      dump(*asked, now);
    } else if (std::holds_alternative<StackAction>(action)) {
      if (const auto running = running_batch()) machine_.note_running(*running, now);
      reporter_.take_places([this](std::string text) { post(Stack{std::move(text)}); });
    } else if (auto* end = std::get_if<OverAction>(&action)) {
      over(end->cause);
    }
  }
}

void Coordinator::over(const Status& cause) {
  over_ = cause;
  if (cause) return;
  if (!leaving_) log_.error("{}", cause.message());
  lane_.abort(cause);
}

void Coordinator::start_operations(const ExecuteAction& action, TimePoint now) {
  std::map<CollectiveKind, Profile::Wait> waits;
  for (const OrderedRequest& ordered : action.requests) {
    if (ordered.token == Token::none) continue;
    Profile::Wait& wait = waits[ordered.agreed->kind];
    for (const OperationRef& operation : unit_of(ordered.token)->operations()) {
      operation->ordered_at = now;
      const double seconds = std::chrono::duration<double>(now - operation->submitted_at).count();
      wait.add({1, seconds, seconds});
    }
  }
  for (const auto& [kind, wait] : waits) {
    statistics_.negotiation_seconds += wait.seconds;
    profile_.waited(kind, wait);
  }
}

void Coordinator::execute(ExecuteAction& action, TimePoint now) {
  if (next_run_check_ == kNever) next_run_check_ = now + seconds_to_duration(config_.stall_check_time);
  if (timeline_) timeline_->mark_cycle();
  start_operations(action, now);
  for (const OrderedRequest& ordered : action.requests) {
    const Request& agreed = *ordered.agreed;
    recorder_.record(FlightEvent::What::ordered, agreed.kind, agreed.process_set, ordered.number,
                     agreed.tensors.size(), agreed.size_bytes(), agreed.name, now);
  }
  for (auto first = action.tensors.cbegin(); first != action.tensors.cend();) {
    const auto last = std::find_if(first, action.tensors.cend(),
                                   [&](const BatchedTensor& one) { return one.batch != first->batch; });
    hand_over(make_run(action, {first, last}));
    first = last;
  }
}

std::unique_ptr<Run> Coordinator::make_run(const ExecuteAction& action,
                                           std::span<const BatchedTensor> batch) {
  const OrderedRequest& first = action.requests[batch.front().request];
  auto run = std::make_unique<Run>();
  run->process_set = process_sets_.find(first.agreed->process_set);
  static_cast<ExecutedCall&>(run->batch) =
      executed(first.agreed->call_of(first.agreed->tensors[batch.front().tensor]), first.contributors,
               *run->process_set);
  run->batch.order = first.number;
  run->batch.process_set = run->process_set.get();
  run->timeline = timeline_;
  run->tensors.reserve(batch.size());
  for (const auto [number, request, tensor] : batch) {
    const OrderedRequest& ordered = action.requests[request];
    RunTensor entry{nullptr, 0, unit_of(ordered.token), nullptr};
    if (entry.unit == nullptr) {
      run->requests.push_back(ordered.request);
      entry.tensor = &ordered.request->tensors[tensor];
    } else {  // the tensors of a unit are its operations' one behind the other
      std::size_t index = tensor;
      auto operation = entry.unit->operations().begin();
      while (index >= (*operation)->inputs.size()) index -= (*operation++)->inputs.size();
      entry.operation = operation->get();
      entry.index = index;
      entry.tensor = &entry.operation->request->tensors[index];
    }
    if (timeline_) run->timeline_ids.push_back(timeline_->tensor(entry.tensor->name));
    run->tensors.push_back(std::move(entry));
  }
  if (timeline_) timeline_->op_start(run->timeline_ids, run->batch.kind);
  return run;
}

void Coordinator::unit_finished(std::unique_ptr<Unit> unit, const Status& status) {
  if (status) {
    const Status verdict = std::move(unit->refused);
    return complete(std::move(unit), verdict);
  }
  const bool noted = attempt([&] {
    const std::lock_guard lock(failed_mutex_);
    failed_.emplace_back();
    failed_.back() = {std::move(unit), copy_of(status)};
  });
  if (!noted) {
    (void)unit.release();  // it is among the units
    break_off(out_of_memory());
  }
  wake();
}

void Coordinator::batch_starts(const Run& run) {
  running_since_ns_ = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
  recorder_.record(FlightEvent::What::started, run.batch.kind, run.process_set->id, run.batch.order,
                   run.tensors.size(), 0, run.tensors.front().tensor->name);
}

void Coordinator::batch_ran(const Run& run, const BatchReport& batch, const Status& status) {
  running_since_ns_ = 0;
  recorder_.record(status ? FlightEvent::What::finished : FlightEvent::What::failed, run.batch.kind,
                   run.process_set->id, run.batch.order, run.tensors.size(), batch.size_bytes,
                   run.tensors.front().tensor->name);
  ++statistics_.batches;
  statistics_.bytes += batch.size_bytes;
  statistics_.execution_seconds += batch.seconds;
  profile_.ran(batch);
}

void Coordinator::runs_left(std::size_t left) {
  if (left < kBusyTasks && (wants_room_.exchange(false) || leaving_)) wake();
}

/// Leaves to end_broken() what has not been completed where an exception ends it.
struct Coordinator::UnitsKept {
  explicit UnitsKept(std::vector<Failed>& failed) : failed_(failed) {}
  ~UnitsKept() {
    for (Failed& one : failed_) (void)one.unit.release();
  }
  std::vector<Failed>& failed_;
};

/// Runs that failed end with the job's first cause. When none has come after a moment, their own failure is
/// the cause; at once where a run has found out by itself what is wrong, before those that it left alone by
/// that take this rank for the cause.
void Coordinator::judge_failures(TimePoint now) {
  std::vector<Failed> failed;
  Status cause, of_job;
  {
    const std::lock_guard lock(failed_mutex_);
    if (failed_.empty()) return;
    if (failed_since_ == kNever) failed_since_ = now;
    const auto known = std::ranges::find_if(failed_, [](const Failed& one) {
      return one.status.code() == Code::peer_lost || one.status.code() == Code::timeout ||
             one.status.code() == Code::out_of_memory;  // this rank's own, so no other is the cause
    });
    if (over_ && !over_->is_ok()) {
      cause = *over_;
    } else if (known != failed_.end() || now >= failed_since_ + kCauseGrace) {
      const Failed& first = known != failed_.end() ? *known : failed_.front();
      cause = first.status;
      const Request& request = *first.unit->first().request;
      of_job = {cause.code(), fmt::format("{} '{}' failed on rank {}: {}", name_of(request.kind),
                                          request.name, world_.rank, cause.message())};
    } else {
      return;
    }
    failed.swap(failed_);
    failed_since_ = kNever;
  }
  const UnitsKept kept(failed);
  if (!over_ || over_->is_ok()) {
    machine_.abort(of_job);
    perform(machine_.take_actions(now), now);
    lane_.abort(of_job);  // also when the negotiation had said goodbye before
  }
  for (Failed& one : failed) {
    const RequestRef request = one.unit->first().request;
    const Status status(cause.code(),
                        fmt::format("{} '{}': {}", name_of(request->kind), request->name, cause.message()));
    complete(std::move(one.unit), status);
  }
}

void Coordinator::complete(std::unique_ptr<Unit> unit, const Status& status) noexcept {
  for (OperationRef& operation : unit->operations()) complete(std::move(operation), status);
}

void Coordinator::complete(OperationRef operation, const Status& status) noexcept {
  if (operation->is_done()) return;  // possible only after a break: it was in two places
  const std::size_t tensors = std::max<std::size_t>(1, operation->inputs.size());
  statistics_.tensors_completed += tensors;
  if (!status) statistics_.tensors_failed += tensors;
  operation->complete(status);
  if (operation->extras().callback) callbacks_.push(std::move(operation));
}

}  // namespace dabke
