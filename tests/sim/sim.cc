#include "tests/sim/sim.h"

#include <algorithm>

namespace dabke::test {
namespace {

negotiation::Negotiator::Options negotiator_options(const SimOptions& options) {
  negotiation::Negotiator::Options negotiator = options.negotiator;
  negotiator.topology = tree_of(options.ranks, options.ranks_per_host, options.radix);
  return negotiator;
}

}  // namespace

Sim::Sim(const SimOptions& options)
    : options_(options),
      simulation_(negotiator_options(options), {options.without_devices}),
      random_(options.seed),
      nodes_(at(options.ranks)) {}

void Sim::forget_traffic() {
  for (Node& node : nodes_) node.traffic = {};
}

void Sim::schedule(TimePoint when, std::function<void()> run) { queue_.schedule(when, std::move(run)); }

void Sim::after(Duration delay, std::function<void()> then) { schedule(now() + delay, std::move(then)); }

Duration Sim::delay() {
  const double extra = std::uniform_real_distribution<double>(0, options_.jitter)(random_);
  return options_.hop + std::chrono::duration_cast<Duration>(options_.hop * extra);
}

void Sim::submit(Rank rank, RequestRef request, std::function<void(const Completed&)> done) {
  std::vector<Done>& waiting = nodes_[at(rank)].done;
  const negotiation::Token token = simulation_.submit(rank, request);
  const std::size_t index = PendingTokens::index_of(token);
  if (index >= waiting.size()) waiting.resize(index + 1);
  waiting[index] = std::move(done);
  if (is_recorded(rank)) recording_->push_back({.at = now(), .token = token, .request = std::move(request)});
  settle(rank);
}

void Sim::want(Rank rank, ProcessSetId set, const std::string& name) {
  if (is_dead(rank)) return;
  simulation_.negotiator(rank).want(set, name, now());
  settle(rank);
}

void Sim::leave(Rank rank) {
  if (is_dead(rank)) return;
  simulation_.negotiator(rank).leave(now());
  settle(rank);
}

void Sim::announce_change(std::uint64_t changes) {
  constexpr Rank kRoot = negotiation::Negotiator::kRoot;
  if (is_dead(kRoot)) return;
  simulation_.negotiator(kRoot).announce_change(changes);
  settle(kRoot);
}

void Sim::kill(Rank rank) {
  simulation_.kill(rank);
  nodes_[at(rank)].done.clear();
  const auto& link_free_at = nodes_[at(rank)].link_free_at;
  for (const Rank peer : topology()->neighbours(rank)) {
    // The loss is seen after everything that the rank sent before.
    TimePoint when = now() + delay();
    if (const auto link = link_free_at.find(peer); link != link_free_at.end())
      when = std::max(when, link->second);
    schedule(when, [this, rank, peer] {
      simulation_.report_loss(rank, peer);
      settle(peer);
    });
  }
}

void Sim::settle(Rank rank) {
  if (is_dead(rank)) return;
  Node& node = nodes_[at(rank)];
  negotiation::Negotiator& negotiator = simulation_.negotiator(rank);
  const DeviceTypes busy = busy_planes(node);
  if (is_recorded(rank)) recording_->push_back({.at = now(), .kind = RootInput::Kind::settle, .busy = busy});
  for (const DeviceType type : kDeviceTypes) negotiator.set_data_plane_busy(type, busy.contains(type));
  simulation_.perform(rank, *this);
  const TimePoint tick = negotiator.next_tick();
  if (tick < node.tick_at) {
    node.tick_at = tick;
    schedule(std::max(tick, now()), [this, rank] {
      nodes_[at(rank)].tick_at = kNever;
      if (is_dead(rank)) return;
      if (is_recorded(rank)) recording_->push_back({.at = now(), .kind = RootInput::Kind::tick});
      simulation_.tick(rank);
      settle(rank);
    });
  }
}

void Sim::send(Rank from, const negotiation::SendAction& action) {
  Node& node = nodes_[at(from)];
  const Rank to = action.peer;
  Node& below = topology()->parent(from) == to ? node : nodes_[at(to)];
  below.traffic.parent_link_bytes += action.message->size();
  TimePoint& free_at = node.link_free_at[to];
  free_at = std::max(free_at, now() + delay());
  schedule(free_at, [this, from, to, message = action.message] {
    if (is_dead(to)) return;
    Traffic& traffic = nodes_[at(to)].traffic;
    ++traffic.received_messages;
    traffic.received_bytes += message->size();
    if (is_recorded(to)) {
      recording_->push_back(
          {.at = now(), .kind = RootInput::Kind::message, .from = from, .message = message});
    }
    simulation_.deliver(from, to, *message);
    settle(to);
  });
}

DeviceTypes Sim::busy_planes(const Node& node) const {
  DeviceTypes busy;
  for (const DeviceType type : kDeviceTypes) {
    if (node.lane_free_at[type] > now() + options_.batch_time) busy.insert(type);
  }
  return busy;
}

void Sim::execute(Rank rank, const negotiation::ExecuteAction& action) {
  Node& node = nodes_[at(rank)];
  ++node.execute_actions;
  node.executed += action.requests.size();
  struct Lane {
    bool any = false;
    std::size_t bytes = 0;
    std::vector<std::pair<negotiation::Token, int>> tokens;
  };
  ByDeviceType<Lane> lanes;
  for (const negotiation::OrderedRequest& ordered : action.requests) {
    Lane& lane = lanes[ordered.agreed->device_type];
    lane.any = true;
    lane.bytes += ordered.agreed->size_bytes();
    if (ordered.token != negotiation::Token::none)
      lane.tokens.emplace_back(ordered.token, ordered.contributors);
  }
  for (const DeviceType type : kDeviceTypes) {
    if (lanes[type].any) run_on_lane(rank, type, lanes[type].bytes, std::move(lanes[type].tokens));
  }
}

void Sim::run_on_lane(Rank rank, DeviceType type, std::size_t bytes,
                      std::vector<std::pair<negotiation::Token, int>> tokens) {
  TimePoint& free_at = nodes_[at(rank)].lane_free_at[type];
  const auto time = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(static_cast<double>(bytes) * options_.seconds_per_byte));
  free_at = std::max(free_at, now()) + options_.batch_time + time;
  schedule(free_at, [this, rank, tokens = std::move(tokens)] {
    for (const auto& [token, contributors] : tokens) {
      if (is_dead(rank)) return;
      simulation_.invariants().tokens().complete(rank, token);
      if (const Done done = take_done(rank, token)) done({Status::ok(), true, 0, contributors});
    }
    settle(rank);
  });
}

void Sim::complete(Rank rank, const negotiation::CompleteAction& action) {
  // Scheduled, so that the caller's next step comes after the current work of the negotiator.
  if (Done done = take_done(rank, action.token)) {
    schedule(now(), [done = std::move(done), result = Completed{action.status, false, action.value, 0}] {
      done(result);
    });
  }
}

Sim::Done Sim::take_done(Rank rank, negotiation::Token token) {
  return std::exchange(nodes_[at(rank)].done[PendingTokens::index_of(token)], {});
}

void Sim::run(Duration limit) {
  const TimePoint end = now() + limit;
  while (queue_.next_at() != kNever && queue_.next_at() <= end) {
    simulation_.advance_to(std::max(now(), queue_.next_at()));
    queue_.run_next();
  }
}

}  // namespace dabke::test
