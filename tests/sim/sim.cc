#include "tests/sim/sim.h"

#include <algorithm>

#include <fmt/format.h>

namespace dabke::test {

Sim::Sim(SimOptions options)
    : options_(std::move(options)), random_(options_.seed), nodes_(at(options_.ranks)) {
  now_ += std::chrono::hours(1);
  std::vector<std::string> hosts;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    hosts.push_back(fmt::format("node{}", rank / options_.ranks_per_host));
  }
  topology_ = std::make_shared<const negotiation::Topology>(options_.ranks, std::move(hosts), options_.radix);
  for (Rank rank = 0; rank < options_.ranks; ++rank) {
    negotiation::Negotiator::Options negotiator = options_.negotiator;
    negotiator.rank = rank;
    if (rank != options_.without_devices) negotiator.serves = {DeviceType::cuda};
    negotiator.topology = topology_;
    nodes_[at(rank)].negotiator = std::make_unique<negotiation::Negotiator>(std::move(negotiator));
  }
}

void Sim::forget_traffic() {
  for (Node& node : nodes_) node.traffic = {};
}

void Sim::schedule(TimePoint when, std::function<void()> run) {
  queue_.push({when, sequence_++, std::move(run)});
}

void Sim::after(Duration delay, std::function<void()> then) { schedule(now_ + delay, std::move(then)); }

Duration Sim::delay() {
  const double extra = std::uniform_real_distribution<double>(0, options_.jitter)(random_);
  return options_.hop + std::chrono::duration_cast<Duration>(options_.hop * extra);
}

namespace {
constexpr int kIndexBits = 20;  // the low bits of a token: where it is pending
}

void Sim::submit(Rank rank, RequestRef request, std::function<void(const Completed&)> done) {
  Node& node = nodes_[at(rank)];
  if (node.free.empty()) {
    node.free.push_back(node.pending.size());
    node.pending.emplace_back();
  }
  const std::size_t index = node.free.back();
  node.free.pop_back();
  const negotiation::Token token{++submitted_ << kIndexBits | index};
  node.pending[index] = {token, request, std::move(done)};
  if (is_recorded(rank)) recording_->push_back({.at = now_, .token = token, .request = request});
  node.negotiator->submit(token, std::move(request), now_);
  settle(rank);
}

std::size_t Sim::pending() const {
  std::size_t sum = 0;
  for (const Node& node : nodes_) sum += node.pending.size() - node.free.size();
  return sum;
}

void Sim::want(Rank rank, ProcessSetId set, const std::string& name) {
  if (is_dead(rank)) return;
  negotiator(rank).want(set, name, now_);
  settle(rank);
}

void Sim::leave(Rank rank) {
  if (is_dead(rank)) return;
  negotiator(rank).leave(now_);
  settle(rank);
}

void Sim::kill(Rank rank) {
  nodes_[at(rank)].dead = true;
  nodes_[at(rank)].pending.clear();
  nodes_[at(rank)].free.clear();
  for (const Rank peer : topology_->neighbours(rank)) {
    // The loss is seen after what the rank sent before.
    TimePoint when = now_ + delay();
    if (const auto link = nodes_[at(rank)].link_free_at.find(peer);
        link != nodes_[at(rank)].link_free_at.end()) {
      when = std::max(when, link->second);
    }
    schedule(when, [this, rank, peer] {
      if (is_dead(peer)) return;
      negotiator(peer).peer_lost(rank, {Code::peer_lost, fmt::format("rank {}: connection reset", rank)});
      settle(peer);
    });
  }
}

void Sim::settle(Rank rank) {
  Node& node = nodes_[at(rank)];
  if (node.dead) return;
  std::vector<negotiation::Action> actions;
  const DeviceTypes busy = busy_planes(node);
  if (is_recorded(rank)) recording_->push_back({.at = now_, .kind = RootInput::Kind::settle, .busy = busy});
  for (const DeviceType type : kDeviceTypes) node.negotiator->set_data_plane_busy(type, busy.contains(type));
  actions = node.negotiator->take_actions(now_);
  for (negotiation::Action& action : actions) {
    if (const auto* send_it = std::get_if<negotiation::SendAction>(&action)) {
      send(rank, *send_it);
    } else if (const auto* run_it = std::get_if<negotiation::ExecuteAction>(&action)) {
      execute(rank, *run_it);
    } else if (const auto* done = std::get_if<negotiation::CompleteAction>(&action)) {
      // Not within what the negotiator does now: what the caller does next comes after.
      if (auto call = take(rank, done->token).done) {
        schedule(now_, [call = std::move(call), result = Completed{done->status, false, done->value, 0}] {
          call(result);
        });
      }
    } else if (const auto* warn = std::get_if<negotiation::WarnAction>(&action)) {
      ++warnings_;
      last_warning_ = warn->text;
    } else if (std::holds_alternative<negotiation::OverAction>(action)) {
      node.over = true;
    }
  }
  const TimePoint tick = node.negotiator->next_tick();
  if (tick < node.tick_at) {
    node.tick_at = tick;
    schedule(std::max(tick, now_), [this, rank] {
      Node& self = nodes_[at(rank)];
      self.tick_at = kNever;
      if (self.dead) return;
      if (is_recorded(rank)) recording_->push_back({.at = now_, .kind = RootInput::Kind::tick});
      self.negotiator->tick(now_);
      settle(rank);
    });
  }
}

void Sim::send(Rank from, const negotiation::SendAction& action) {
  Node& node = nodes_[at(from)];
  const Rank to = action.peer;
  Node& below = topology_->parent(from) == to ? node : nodes_[at(to)];
  below.traffic.parent_link_bytes += action.message->size();
  TimePoint& free_at = node.link_free_at[to];
  free_at = std::max(free_at, now_ + delay());
  schedule(free_at, [this, from, to, message = action.message] {
    Node& receiver = nodes_[at(to)];
    if (receiver.dead) return;
    ++receiver.traffic.received_messages;
    receiver.traffic.received_bytes += message->size();
    if (is_recorded(to)) {
      recording_->push_back({.at = now_, .kind = RootInput::Kind::message, .from = from, .message = message});
    }
    receiver.negotiator->message_from(from, *message, now_);
    settle(to);
  });
}

DeviceTypes Sim::busy_planes(const Node& node) const {
  DeviceTypes busy;
  for (const DeviceType type : kDeviceTypes) {
    if (node.lane_free_at[type] > now_ + options_.batch_time) busy.insert(type);
  }
  return busy;
}

void Sim::execute(Rank rank, const negotiation::ExecuteAction& action) {
  Node& node = nodes_[at(rank)];
  ++node.execute_actions;
  struct Lane {
    bool any = false;
    std::size_t bytes = 0;
    std::vector<std::pair<negotiation::Token, int>> tokens;
  };
  ByDeviceType<Lane> lanes;
  for (const negotiation::OrderedRequest& ordered : action.requests) {
    if (ordered.number <= node.last_number) {
      throw Violation(
          fmt::format("rank {} executes order {} after {}", rank, ordered.number, node.last_number));
    }
    node.last_number = ordered.number;
    ++node.executed;
    Lane& lane = lanes[ordered.agreed->device_type];
    lane.any = true;
    lane.bytes += ordered.agreed->size_bytes();
    if (!negotiator(rank).sets().contains(ordered.agreed->process_set, rank)) {
      throw Violation(
          fmt::format("rank {} executes '{}' of a set that it is not in", rank, ordered.agreed->name));
    }
    const auto [entry, fresh] =
        agreed_.try_emplace(ordered.number, Agreed{ordered.agreed, ordered.contributors});
    const Agreed& agreed = entry->second;
    const int members =
        static_cast<int>(negotiator(rank).sets().ranks_of(ordered.agreed->process_set)->size());
    const bool same = fresh || (agreed.request->name == ordered.agreed->name &&
                                agreed.request->process_set == ordered.agreed->process_set &&
                                difference(*agreed.request, *ordered.agreed).empty() &&
                                agreed.contributors == ordered.contributors);
    if (!same) {
      throw Violation(
          fmt::format("order {} is '{}' of set {} from {} ranks here, and '{}' of set {} from {} on rank {}",
                      ordered.number, agreed.request->name, agreed.request->process_set, agreed.contributors,
                      ordered.agreed->name, ordered.agreed->process_set, ordered.contributors, rank));
    }
    if (++entry->second.seen == members) agreed_.erase(entry);
    if (ordered.token != negotiation::Token::none) {
      if (!difference(*ordered.agreed, *ordered.request).empty()) {
        throw Violation(fmt::format("rank {} runs '{}' with another signature than it submitted", rank,
                                    ordered.agreed->name));
      }
      lane.tokens.emplace_back(ordered.token, ordered.contributors);
    }
  }
  check_batches(rank, action);
  for (const DeviceType type : kDeviceTypes) {
    if (lanes[type].any) run_on_lane(rank, type, lanes[type].bytes, std::move(lanes[type].tokens));
  }
}

void Sim::run_on_lane(Rank rank, DeviceType type, std::size_t bytes,
                      std::vector<std::pair<negotiation::Token, int>> tokens) {
  TimePoint& free_at = nodes_[at(rank)].lane_free_at[type];
  const auto time = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(static_cast<double>(bytes) * options_.seconds_per_byte));
  free_at = std::max(free_at, now_) + options_.batch_time + time;
  schedule(free_at, [this, rank, tokens = std::move(tokens)] {
    if (is_dead(rank)) return;
    for (const auto& [token, contributors] : tokens) {
      if (const auto call = take(rank, token).done) call({Status::ok(), true, 0, contributors});
      if (is_dead(rank)) return;
    }
    settle(rank);
  });
}

void Sim::check_batches(Rank rank, const negotiation::ExecuteAction& action) {
  std::size_t tensors = 0;
  for (const negotiation::OrderedRequest& ordered : action.requests)
    tensors += ordered.agreed->tensors.size();
  if (tensors != action.tensors.size())
    throw Violation(fmt::format("rank {} runs {} tensors of {}", rank, action.tensors.size(), tensors));
  for (auto first = action.tensors.begin(); first != action.tensors.end();) {
    const ProcessSetId set = action.requests[first->request].agreed->process_set;
    BatchOfTensors batch;
    const auto number = first->batch;
    for (; first != action.tensors.end() && first->batch == number; ++first) {
      batch.emplace_back(action.requests[first->request].number, first->tensor);
    }
    check_batch(rank, batch, set);
    if (batch.front() <= nodes_[at(rank)].last_batch)
      throw Violation(fmt::format("rank {} runs the batch of order {} late", rank, batch.front().first));
    nodes_[at(rank)].last_batch = batch.front();
  }
}

/// Whether the other members of its set run the same.
void Sim::check_batch(Rank rank, const BatchOfTensors& batch, ProcessSetId set) {
  const auto [entry, fresh] = batches_.try_emplace(batch.front(), RunBatch{batch});
  if (entry->second.tensors != batch) {
    throw Violation(fmt::format("the batch of order {} has {} tensors on rank {}, and {} on another rank",
                                batch.front().first, batch.size(), rank, entry->second.tensors.size()));
  }
  const int members = static_cast<int>(negotiator(rank).sets().ranks_of(set)->size());
  if (++entry->second.seen == members) batches_.erase(entry);
}

Sim::Pending Sim::take(Rank rank, negotiation::Token token) {
  Node& node = nodes_[at(rank)];
  const std::size_t index = static_cast<std::uint64_t>(token) & ((1U << kIndexBits) - 1);
  if (token == negotiation::Token::none || index >= node.pending.size() ||
      node.pending[index].token != token) {
    throw Violation(fmt::format("rank {} completes token {} once more, or not its own", rank,
                                static_cast<std::uint64_t>(token)));
  }
  node.free.push_back(index);
  return std::exchange(node.pending[index], {});
}

void Sim::run(Duration limit) {
  const TimePoint end = now_ + limit;
  while (!queue_.empty() && queue_.top().at <= end) {
    Event event = std::move(const_cast<Event&>(queue_.top()));
    queue_.pop();
    now_ = std::max(now_, event.at);
    ++events_;
    event.run();
  }
}

void Sim::check_quiet() {
  for (Rank rank = 0; rank < ranks(); ++rank) {
    for (const Pending& one : nodes_[at(rank)].pending) {
      if (one.token == negotiation::Token::none) continue;
      throw Violation(fmt::format(
          "{} operations never completed; '{}' of rank {} is one of them: {} {}", pending(),
          one.request->name, rank,
          negotiation::difference_in_tables(negotiator(rank).state(), negotiator(0).state()), last_warning_));
    }
  }
  const negotiation::Negotiator* root =
      nodes_[0].dead || nodes_[0].over ? nullptr : nodes_[0].negotiator.get();
  for (Rank rank = 0; rank < ranks() && root != nullptr; ++rank) {
    const Node& node = nodes_[at(rank)];
    if (node.dead || node.over) continue;
    if (const std::string what = negotiation::difference_in_tables(node.negotiator->state(), root->state());
        !what.empty()) {
      throw Violation(fmt::format("rank {} and the root differ: {}", rank, what));
    }
  }
}

}  // namespace dabke::test
