#include "tests/sim/elastic/sim_worker.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace dabke::test {
namespace {

using bootstrap::EpochPlace;
using bootstrap::LeftInOrder;

constexpr std::array<std::string_view, 7> kPhases{"starting", "meeting", "joining", "syncing",
                                                  "training", "leaving", "ended"};

}  // namespace

SimWorker::SimWorker(ElasticWorld& world, Owner& owner, bootstrap::WorkerId id, launcher::Slot slot)
    : world_(world), owner_(owner), process_{.worker = id, .host = slot.host}, slot_(std::move(slot)) {
  arrival_.worker = id;
  arrival_.visit = 0;
  arrival_.host = slot_.host;
}

std::string SimWorker::describe() const {
  return fmt::format("process {} on {}:{} ({}, epoch {}, step {}{})", process_.worker, slot_.host,
                     slot_.local_rank, kPhases[static_cast<std::size_t>(phase_)], process_.epoch, state_.step,
                     process_.gate.is_stopped() ? ", stopped" : "");
}

void SimWorker::after(Duration delay, std::function<void()> then) {
  world_.queue.after(delay, [this, then = std::move(then)]() mutable { process_.gate.run(std::move(then)); });
}

void SimWorker::enter(Phase phase) {
  phase_ = phase;
  owner_.phase_changed(*this);
}

void SimWorker::start() {
  after(world_.moment(world_.start_time), [this] { come_to_meeting(); });
}

void SimWorker::end(std::string why) {
  process_.gate.close();
  phase_ = Phase::ended;
  end_reason_ = std::move(why);
}

void SimWorker::come_to_meeting() {
  store_ = std::make_unique<ReplayedStore>([this](const std::string& key, std::string value) {
    world_.queue.after(world_.delay(), [this, key, value = std::move(value)]() mutable {
      world_.store.set(key, std::move(value));
    });
  });
  ++arrival_.visit;
  arrival_.epoch = process_.epoch;
  arrival_.commit = commit_;
  if (world_.mistake == Mistake::counts_unfinished && has_failed_ && commit_) arrival_.commit = *commit_ + 1;
  enter(Phase::meeting);
  try_meeting();
}

void SimWorker::try_meeting() {
  if (!is_alive()) return;
  store_->rewind();
  auto met = bootstrap::come_to_meeting(*store_, arrival_, kNever);
  if (const std::string key = store_->awaited(); !key.empty()) {
    return world_.store.when_set(key, [this, key](const std::string& value) {
      after(world_.delay(), [this, key, value] {
        store_->receive(key, value);
        try_meeting();
      });
    });
  }
  if (!met.is_ok()) return owner_.ended(*this, met.status().message());
  if (std::holds_alternative<LeftInOrder>(*met)) return owner_.ended(*this, "");
  take_place(std::get<EpochPlace>(met.take()));
}

void SimWorker::take_place(EpochPlace place) {
  const std::uint64_t number = place.plan.epoch;
  process_.epoch = number;
  world_.invariants.read_plan(number, process_.worker, store_->received(bootstrap::plan_key(number)));
  rank_ = place.rank;
  epoch_ = &owner_.epoch(number);
  changes_ = 0;
  waiting_ = 0;
  has_failed_ = false;
  enter(Phase::joining);
  after(world_.delay(), [this] {
    epoch_->join(rank_);
    const bool learns_by_itself = world_.mistake == Mistake::announces_by_message;
    if (rank_ == 0 || learns_by_itself) watch_changes(plan().change + 1);
    sync();
  });
}

/// Passes on each change that dabkerun announces. Rank 0 does so, as by ChangeWatch.
void SimWorker::watch_changes(std::uint64_t change) {
  world_.store.when_set(bootstrap::change_key(change), [this, change, epoch = epoch_](const std::string&) {
    after(world_.delay(), [this, change, epoch] {
      if (epoch_ != epoch || phase_ == Phase::meeting) return;
      if (world_.mistake == Mistake::announces_by_message) {
        changes_ = change;
      } else {
        epoch_->announce_change(change);
      }
      watch_changes(change + 1);
    });
  });
}

void SimWorker::submit(const std::string& name, CollectiveKind kind, Rank root, const Values& values,
                       std::function<void(const Values&)> received, void (SimWorker::*then)()) {
  auto request = std::make_shared<Request>();
  request->name = name;
  request->kind = kind;
  if (kind == CollectiveKind::broadcast) request->root = root;
  request->tensors = {{name, DType::f32, Shape{static_cast<std::int64_t>(plan().epoch), 4}}};
  ++waiting_;
  epoch_->submit(rank_, std::move(request), values,
                 [this, name, received = std::move(received), then](const EpochSim::Result& result) {
                   --waiting_;
                   if (result.status.is_ok()) {
                     if (world_.mistake != Mistake::announces_by_message)
                       changes_ = std::max(changes_, result.changes);
                     received(result.values);
                   } else {
                     world_.invariants.fail(plan(), rank_, name, result.status, epoch_->is_anybody_lost());
                     has_failed_ = true;
                   }
                   if (waiting_ > 0) return;
                   if (has_failed_) return leave(true);
                   (this->*then)();
                 });
}

/// Every rank gets the state of the newest commit from its holders. Which rank sends follows from the plan.
void SimWorker::sync() {
  enter(Phase::syncing);
  const bool is_first = !plan().newest_commit();
  std::vector<Rank> holders = is_first ? std::vector<Rank>{0} : plan().holders();
  if (world_.mistake == Mistake::ignores_roster && commit_) holders = {rank_};
  received_ = is_first && rank_ == 0 ? state_ : committed_;
  if (holders.size() == plan().members.size()) return end_sync();
  for (const Rank holder : holders) send_state(holder);
}

void SimWorker::send_state(Rank holder) {
  const Values mine{received_.step, received_.weights};
  submit(
      fmt::format("elastic.state.{}", holder), CollectiveKind::broadcast, holder, mine,
      [this, holder, mine](const Values& values) {
        const TrainingState state{values[0], values[1]};
        world_.invariants.send_state(plan().epoch, holder, state);
        if (holder == rank_) world_.invariants.receive(plan(), rank_, "elastic.state", values, mine);
        received_ = state;
      },
      &SimWorker::end_sync);
}

void SimWorker::end_sync() {
  const bool held = commit_ && commit_ == plan().newest_commit();
  committed_ = received_;
  commit_ = plan().newest_commit().value_or(0);
  if (!held) state_ = committed_;
  enter(Phase::training);
  step();
}

/// The contribution of a process to a tensor of the current step.
Values SimWorker::gradient(bootstrap::WorkerId worker, int tensor) const {
  return {(worker * 7919 + state_.step * 104'729 + state_.weights + tensor * 31) % 1'000'003, 1};
}

void SimWorker::step() {
  if (state_.step == world_.program.steps) return finish();
  sum_ = 0;
  waiting_ = 1;  // until all are submitted
  submit_tensors(0);
}

void SimWorker::submit_tensors(int tensor) {
  if (tensor == world_.program.tensors || has_failed_) {
    if (--waiting_ > 0) return;
    return has_failed_ ? leave(true) : end_step();
  }
  Values expected{};
  for (const bootstrap::EpochMember& member : plan().members) {
    const Values part = gradient(member.worker, tensor);
    for (std::size_t i = 0; i < part.size(); ++i) expected[i] += part[i];
  }
  const std::string name = fmt::format("gradient.{}", tensor);
  submit(
      name, CollectiveKind::allreduce, 0, gradient(process_.worker, tensor),
      [this, name, expected, tensor](const Values& values) {
        world_.invariants.receive(plan(), rank_, name, values, expected);
        sum_ += values[0] * (tensor + 1);
      },
      &SimWorker::end_step);
  after(world_.moment(world_.program.think), [this, tensor] { submit_tensors(tensor + 1); });
}

void SimWorker::end_step() {
  state_.weights = (state_.weights * 31 + sum_) % 1'000'000'007;
  ++state_.step;
  if (state_.step % world_.program.steps_per_commit == 0 || state_.step == world_.program.steps)
    return commit_state();
  step();
}

void SimWorker::commit_state() {
  committed_ = state_;
  commit_ = commit_ ? *commit_ + 1 : 0;
  const std::uint64_t old = world_.mistake == Mistake::counts_old_changes ? 0 : plan().change;
  const std::uint64_t seen = std::max(changes_, plan().change) - old;
  world_.invariants.commit(plan().epoch, rank_, *commit_, committed_, seen);
  if (seen > 0) return leave(false);
  if (rank_ == 0) owner_.root_goes_on();
  step();
}

/// To the next epoch.
void SimWorker::leave(bool restores) {
  if (restores && commit_) state_ = committed_;
  enter(Phase::leaving);
  epoch_->leave(rank_, [this] {
    epoch_->close(rank_);
    come_to_meeting();
  });
}

void SimWorker::finish() {
  enter(Phase::leaving);
  epoch_->leave(rank_, [this] { owner_.ended(*this, ""); });
}

}  // namespace dabke::test
