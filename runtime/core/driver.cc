#include "runtime/core/driver.h"

#include <string.h>

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "runtime/base/text/wait_description.h"
#include "runtime/base/threads/exceptions.h"
#include "runtime/lanes/run_maker.h"

namespace dabke::core {
namespace {

// The time limit for the report of how the process of a lost rank has ended. The report comes in
// milliseconds, unless dabkerun is busy or gone. An operation that has failed by itself waits a little longer
// for its cause (FailureArbiter).
constexpr Duration kExitStatusTime = std::chrono::milliseconds(900);

/// The batch sizes of the backend that runs most batches: the first that serves the world.
BatchSizes batch_sizes(const Backends& backends, const ProcessSetTable& process_sets) {
  const auto world = process_sets.find(kWorldSet);
  const auto serves = [&](const auto& backend) { return backend->can_serve(*world); };
  const auto first = std::ranges::find_if(backends.host, serves);
  return first == backends.host.end() ? BatchSizes{} : (*first)->batch_sizes();
}

/// "status 1", "status 137 (SIGKILL)".
std::string status_text(int status) {
  const char* const signal = status > 128 ? ::sigabbrev_np(status - 128) : nullptr;
  return fmt::format("status {}{}", status, signal == nullptr ? "" : fmt::format(" (SIG{})", signal));
}

/// How a rank has ended that left without a goodbye.
std::string end_of(const std::string& name, int status, const Config& config) {
  if (status != 0) return fmt::format("{} ended with {}", name, status_text(status));
  return fmt::format(
      "{} ended with status 0 without {}; do all ranks run the same number of steps? See join()", name,
      shutdown_name(config));
}

/// "its process 4711 is stopped", for a neighbour on this host; empty for others.
std::string process_of(const control::ControlChannel& channel, Rank rank) {
  const int pid = channel.process_of(rank);
  return pid > 0 ? fmt::format("its process {} {}", pid, process_state(pid)) : "";
}

negotiation::Negotiator::Options negotiator_options(const World& world, const Config& config,
                                                    const BatchSizes& sizes,
                                                    const control::ControlChannel& channel,
                                                    FirstSets first_sets) {
  negotiation::Negotiator::Options options;
  options.rank = world.rank;
  options.first_sets = std::move(first_sets);
  options.duplicates_are_errors = config.duplicate_names == DuplicateNames::error;
  options.sequencer.fusion = {config.deterministic ? 0 : config.fusion_threshold, sizes.alone,
                              !config.disable_group_fusion};
  options.sequencer.joins_as_horovod = config.join == JoinRule::horovod;
  options.topology = topology_of(world, config);
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

std::shared_ptr<const negotiation::Topology> topology_of(const World& world, const Config& config) {
  return std::make_shared<const negotiation::Topology>(world.size, world.hosts,
                                                       static_cast<int>(config.tree_radix));
}

Driver::Driver(CoordinatorParts& parts, control::ControlChannel& channel, Inbox& inbox, DriverOwner& owner)
    : world_(parts.world),
      config_(parts.config),
      channel_(channel),
      inbox_(inbox),
      owner_(owner),
      process_sets_(parts.process_sets),
      reporter_(parts.reports.reporter),
      log_(parts.reports.log),
      negotiator_(negotiator_options(parts.world, parts.config,
                                     batch_sizes(parts.backends, parts.process_sets), channel,
                                     std::move(parts.first_sets))),
      names_(parts.config.duplicate_names == DuplicateNames::error ? std::make_unique<NamesInUse>()
                                                                   : nullptr),
      lanes_(parts.backends, std::move(parts.open_device), parts.world.hosts, *this, parts.reports.log),
      lost_peers_due_(deadlines_, [this](TimePoint now) { give_up_lost_peers(now); }),
      reports_(std::move(parts.reports), deadlines_, channel, negotiator_, calls_, lanes_),
      negotiation_due_(deadlines_, [this](TimePoint now) { negotiator_.tick(now); }),
      failures_due_(deadlines_) {
  negotiator_.report_tick_to(negotiation_due_);
}

Status Driver::start() {
  DABKE_RETURN_IF_ERROR(reporter_.start());
  DABKE_RETURN_IF_ERROR(lanes_.start());
  return callbacks_.start([this](Status cause) { break_off(std::move(cause)); });
}

/// A refused call takes no name from the next call.
Status Driver::take_name(const Request& request) {
  return names_ == nullptr || !request.refused.is_ok() ? Status() : names_->take(request);
}

void Driver::give_name_back(const Request& request) noexcept {
  if (names_ != nullptr && request.refused.is_ok()) names_->give_back(request);
}

void Driver::break_off(Status cause) noexcept {
  failures_.break_off(std::move(cause));
  owner_.wake();
}

/// Does everything that there is to do.
void Driver::round() {
  std::vector<Command>& commands = inbox_.take();
  const TimePoint now = Clock::now();  // later than all that was submitted
  reports_.stop_timeline_at_limit(now);
  obey_commands(commands, now);
  wants_room_ = true;  // before the lanes are asked, so that no end of a batch is missed
  for (const DeviceType type : kDeviceTypes) negotiator_.set_data_plane_busy(type, lanes_.is_busy(type));
  deadlines_.run(now);
  std::vector<negotiation::Action> actions = negotiator_.take_actions(now);
  reports_.take_readiness();  // before the orders that follow from it
  perform(std::move(actions), now);
  reports_.take_profile();
  if (!negotiator_.defers_orders()) wants_room_ = false;
  has_learned_batches_ = negotiator_.has_learned_batches();
  if (failures_.has_failures()) judge_failures(now);
}

bool Driver::is_finished() {
  return leaving_ && negotiator_.is_over() && lanes_.outstanding() == 0 && !failures_.has_failures();
}

/// True if every deferred order waits for a lane that will report an end.
bool Driver::is_room_awaited() {
  return std::ranges::all_of(kDeviceTypes, [this](DeviceType type) {
    return !negotiator_.defers_orders(type) || (lanes_.is_busy(type) && wants_room_);
  });
}

bool Driver::nothing_to_do() {
  // A lane may have cleared wants_room_ while no thread slept that it could wake, even for a batch that had
  // ended before the last check of the lanes. It must be set again before a thread sleeps, or the next end
  // wakes no thread.
  return is_room_awaited() && !is_finished() && !failures_.is_broken() && !failures_.has_news() &&
         !inbox_.has_news();
}

void Driver::obey_commands(std::vector<Command>& commands, TimePoint now) {
  for (Command& command : commands) {
    if (auto* operation = std::get_if<OperationRef>(&command)) {
      accept(*operation, now);
    } else if (const auto* wanted = std::get_if<WantedHint>(&command)) {
      negotiator_.want(wanted->process_set, wanted->name, now);
    } else if (auto* cause = std::get_if<Status>(&command)) {
      negotiator_.abort(*cause);
    } else if (auto* timeline = std::get_if<ChangeTimeline>(&command)) {
      negotiator_.change_timeline(std::move(timeline->change), timeline->from, now);
    } else if (const auto* released = std::get_if<ReleaseTimeline>(&command)) {
      negotiator_.release_timeline(released->path, now);
    } else if (const auto* asked = std::get_if<AskForDumps>(&command)) {
      negotiator_.ask_for_dumps(asked->reason, negotiation::Negotiator::Dumped::as_asked, now);
    } else if (auto* question = std::get_if<Describe>(&command)) {
      question->answer->set_value(reports_.describe(std::move(question->reason), now));
    } else if (std::holds_alternative<GatherFigures>(command)) {
      negotiator_.gather_figures();
    } else if (auto* taker = std::get_if<TakeFigures>(&command)) {
      taker->answer->set_value(reports_.job_figures(now));
    } else if (const auto* announced = std::get_if<ChangesAnnounced>(&command)) {
      negotiator_.announce_change(announced->changes);
    } else if (const auto* ended = std::get_if<ExitStatus>(&command)) {
      peer_ended(ended->rank, ended->status);
    } else if (const auto* places = std::get_if<ThreadPlaces>(&command)) {
      negotiator_.give_stack(places->number, places->text, now);
    }
  }
  if (inbox_.done_with()) {
    leaving_ = true;
    negotiator_.leave(now);
  }
}

/// If this throws, the operation still belongs to the caller, or is in the table of calls, or both.
void Driver::accept(OperationRef& operation, TimePoint now) {
  std::unique_ptr<NegotiatedCall> call;
  RequestRef request;
  calls_.make_room();
  if (operation->extras().group.empty()) {
    request = operation->request;
    call = std::make_unique<NegotiatedCall>(std::move(operation));
  } else {
    const Operation::Extras& extras = operation->extras();
    Status taken = groups_.check(*operation);
    if (taken.is_ok())
      taken = negotiator_.submit_member(operation->request, extras.group, extras.group_size, now);
    if (!taken.is_ok()) return complete(std::move(operation), taken);
    call = groups_.add(operation);
    if (!call) return;
    request = GroupCollector::request_of(*call);
  }
  call->entry = calls_.add(*call);
  NegotiatedCall& accepted = *call.release();  // its token comes back in exactly one action
  accepted.tensors_left = request->tensors.size();
  reports_.submitted(*request, accepted.first().submitted_at);
  if (request->kind == CollectiveKind::join) negotiator_.serve(lanes_.served());
  negotiator_.submit(accepted.entry->token, std::move(request), now);
}

void Driver::on_message(Rank peer, std::span<const std::byte> message) {
  reports_.message_received();
  if (failures_.is_broken()) return;  // broken since the baton was given away; a step may be half done
  negotiator_.message_from(peer, message, Clock::now());
}

/// Asks first for the exit status: the launcher of the process may report more than the end of its link.
void Driver::on_peer_lost(Rank peer, const Status& cause) {
  if (failures_.is_broken()) return;
  const TimePoint until = Clock::now() + kExitStatusTime;
  const bool is_asked = negotiator_.misses(peer) &&
                        reporter_.take_exit_status(peer, until, [this, peer](std::optional<int> status) {
                          owner_.post_and_wake(ExitStatus{peer, status});
                        });
  if (!is_asked) return negotiator_.peer_lost(peer, cause);
  lost_peers_.add({peer, cause, until});
  lost_peers_due_.set(lost_peers_.deadline());
}

void Driver::peer_ended(Rank peer, std::optional<int> status) {
  auto lost = lost_peers_.take(peer);
  if (!lost) return;
  lost_peers_due_.set(lost_peers_.deadline());
  negotiator_.peer_lost(peer, status
                                  ? Status(lost->cause.code(), end_of(world_.name_of(peer), *status, config_))
                                  : lost->cause);
}

void Driver::give_up_lost_peers(TimePoint now) {
  while (const auto overdue = lost_peers_.overdue(now)) peer_ended(*overdue, std::nullopt);
}

void Driver::perform(std::vector<negotiation::Action> actions, TimePoint now) {
  for (negotiation::Action& action : actions) {
    if (auto* send = std::get_if<negotiation::SendAction>(&action)) {
      reports_.message_sent();
      channel_.send(send->peer, *send->message);
    } else if (auto* run = std::get_if<negotiation::ExecuteAction>(&action)) {
      execute(*run, now);
    } else if (auto* done = std::get_if<negotiation::CompleteAction>(&action)) {
      std::unique_ptr<NegotiatedCall> call(calls_.find(done->token));
      call->first().value = done->value;
      call->first().changes = done->changes;
      note_departure(done->status);
      for (const OperationRef& one : call->operations()) reports_.refused(*one->request, done->status);
      complete(std::move(call), done->status);
    } else if (auto* set = std::get_if<negotiation::ProcessSetAction>(&action)) {
      change_process_set(*set);
    } else if (auto* warn = std::get_if<negotiation::WarnAction>(&action)) {
      reports_.warned(*warn);
    } else if (const auto* failed = std::get_if<negotiation::FailGroupAction>(&action)) {
      note_departure(failed->status);
      for (OperationRef& member : groups_.take(failed->process_set, failed->group)) {
        reports_.refused(*member->request, failed->status);
        complete(std::move(member), failed->status);
      }
    } else if (const auto* asked = std::get_if<negotiation::DumpAction>(&action)) {
      reports_.dump(*asked, now);
    } else if (const auto* timeline = std::get_if<negotiation::TimelineAction>(&action)) {
      reports_.change_timeline(timeline->change);
    } else if (std::holds_alternative<negotiation::FiguresAction>(action)) {
      negotiator_.give_figures(reports_.figures(now), now);
    } else if (const auto* stack = std::get_if<negotiation::StackAction>(&action)) {
      reports_.give_places(
          [this, number = stack->number](std::string text) {
            owner_.post_and_wake(ThreadPlaces{number, std::move(text)});
          },
          now);
    } else if (auto* end = std::get_if<negotiation::OverAction>(&action)) {
      job_is_over(end->cause);
    }
  }
}

void Driver::change_process_set(const negotiation::ProcessSetAction& action) {
  if (!action.ranks.empty()) return process_sets_.add({action.id, action.ranks, action.is_among_members});
  auto release = std::make_unique<lanes::Run>();
  release->process_set = process_sets_.find(action.id);
  process_sets_.remove(action.id);
  if (release->process_set && release->process_set->rank >= 0) owner_.hand_over(std::move(release));
}

void Driver::job_is_over(const Status& cause) {
  over_ = cause;
  reports_.job_is_over(cause);
  if (cause.is_ok()) return;
  if (!leaving_) reports_.failed(cause);
  lanes_.abort(cause);
}

/// Logs the departure once, before it can end any process. dabkerun finds in the log which rank was the first
/// cause.
void Driver::note_departure(const Status& status) {
  if (status.code() != Code::shut_down || leaving_ || std::exchange(has_logged_departure_, true)) return;
  log_.error("{}", status.message());
}

void Driver::execute(const negotiation::ExecuteAction& action, TimePoint now) {
  reports_.ordered(action, now);
  for (auto first = action.tensors.cbegin(); first != action.tensors.cend();) {
    const auto last = std::find_if(first, action.tensors.cend(), [&](const negotiation::BatchedTensor& one) {
      return one.batch != first->batch;
    });
    owner_.hand_over(lanes::make_run(action, {first, last}, calls_, process_sets_, reports_.timeline()));
    first = last;
  }
}

void Driver::call_finished(std::unique_ptr<NegotiatedCall> call, const Status& status) {
  if (status.is_ok()) {
    for (OperationRef& operation : call->operations()) end(std::move(operation), call->refused);
    return;
  }
  if (!failures_.note(std::move(call), status)) break_off(out_of_memory());
  owner_.wake();
}

void Driver::run_ended(bool has_room) {
  if (has_room && (wants_room_.exchange(false) || leaving_)) owner_.wake();
}

void Driver::judge_failures(TimePoint now) {
  auto verdict = failures_.judge(now, over_ ? &*over_ : nullptr);
  failures_due_.set(failures_.deadline());
  if (!verdict) return;
  // If an exception ends this function, calls that have not completed stay in the table of calls.
  struct CallsKept {
    ~CallsKept() {
      for (FailedCall& one : calls) (void)one.call.release();
    }
    std::vector<FailedCall>& calls;
  };
  const CallsKept kept{verdict->calls};
  const auto named = [](const FailedCall& one, std::string_view where, const Status& cause) {
    const Request& request = *one.call->first().request;
    return Status(cause.code(), fmt::format("{}{}: {}", name_of_call(request), where, cause.message()));
  };
  if (verdict->is_new) {
    const Status of_job =
        named(verdict->calls[verdict->first], fmt::format(" failed on rank {}", world_.rank), verdict->cause);
    negotiator_.abort(of_job);
    perform(negotiator_.take_actions(now), now);
    lanes_.abort(of_job);  // also if the negotiation had sent its goodbye before
  }
  for (FailedCall& one : verdict->calls) {
    const Status status = named(one, "", verdict->cause);
    complete(std::move(one.call), status);
  }
}

void Driver::complete(std::unique_ptr<NegotiatedCall> call, const Status& status) noexcept {
  for (OperationRef& operation : call->operations()) complete(std::move(operation), status);
}

void Driver::complete(OperationRef operation, const Status& status) noexcept {
  end(std::move(operation), status);
  callbacks_.wake();
}

void Driver::end(OperationRef operation, const Status& status) noexcept {
  if (operation->is_done()) return;     // possible only after a break: it was in two places
  give_name_back(*operation->request);  // before the end is visible: the caller may then use the name again
  reports_.completed(std::max<std::size_t>(1, operation->request->tensors.size()), status.is_ok());
  operation->complete(status);
  if (operation->extras().callback) callbacks_.push(std::move(operation));
}

void Driver::finish() {
  lanes_.stop();
  channel_.close(Clock::now() + kCloseTime);
  inbox_.close();
  const TimePoint now = Clock::now();
  obey_commands(inbox_.take(), now);  // commands that came after the goodbye
  perform(negotiator_.take_actions(now), now);
}

void Driver::stop_reports_and_callbacks() {
  reports_.job_is_over({});
  callbacks_.stop();
}

/// Ends all calls. Those that the negotiation has lost are still in the table of calls. Every step is tried,
/// and none needs the step before it.
///   1. The lanes end; a helper gives back what it runs.
///   2. Calls from now on are refused.
///   3. Every call that has not completed completes.
void Driver::end_broken(Status cause) noexcept {
  if (over_ && !over_->is_ok()) cause = copy_of(*over_);
  (void)attempt([&] { log_.error("{}", cause.message()); });
  if (!attempt([&] { lanes_.abort(cause); })) lanes_.abort(out_of_memory());
  lanes_.stop();
  // A helper still reports the ends of its batch.
  while (lanes_.outstanding() != 0) std::this_thread::yield();
  inbox_.close(cause);
  reports_.job_is_over(cause);
  failures_.forget_all();
  calls_.for_each([&](NegotiatedCall& call) { complete(std::unique_ptr<NegotiatedCall>(&call), cause); });
  groups_.give_all([&](OperationRef member) { complete(std::move(member), cause); });
  inbox_.give_all([&](OperationRef operation) {
    // A member of a group may be done already, together with the others of its group.
    if (!operation->is_done()) complete(std::move(operation), cause);
  });
  over_ = std::move(cause);
  (void)attempt([&] { channel_.close(Clock::now() + kCloseTime); });
}

}  // namespace dabke::core
