#include "runtime/negotiation/machine.h"

#include <algorithm>

#include <fmt/format.h>

namespace dabke {
namespace {

/// A joined rank takes part with no rows where it may.
void drop_rows(Request& request) {
  if (request.kind != CollectiveKind::allgather && request.kind != CollectiveKind::alltoall) return;
  for (TensorSpec& tensor : request.tensors) tensor.shape.set(0, 0);
}

}  // namespace

Machine::Machine(Options options)
    : options_(std::move(options)),
      sets_(options_.sequencer.size),
      left_(static_cast<std::size_t>(options_.sequencer.size)),
      peer_gone_(left_.size()) {
  if (is_root()) sequencer_ = std::make_unique<Sequencer>(options_.sequencer);
}

Status Machine::check(const Request& request) const {
  const auto because = [&request](const Status& cause) {
    return Status(cause.code(),
                  fmt::format("{} '{}': {}", name_of(request.kind), request.name, cause.message()));
  };
  if (over_) return because(cause_);
  if (leaving_) return because({Code::shut_down, "dabke_shutdown was called on this rank"});
  const auto* ranks = sets_.ranks_of(request.process_set);
  if (ranks == nullptr) {
    return {Code::unknown_process_set,
            fmt::format("'{}': process set {} does not exist (it may have been removed)", request.name,
                        request.process_set)};
  }
  for (const Rank rank : *ranks) {
    if (left_[static_cast<std::size_t>(rank)]) {
      return {Code::shut_down, fmt::format("'{}' cannot run: {} has shut down", request.name, who(rank))};
    }
  }
  if (std::ranges::find(joined_, request.process_set) != joined_.end()) {
    return {Code::invalid_argument,
            fmt::format(
                "'{}': this rank has joined process set {}; nothing can be submitted there until the join "
                "completes",
                request.name, request.process_set)};
  }
  return {};
}

void Machine::submit(Token token, Request request, TimePoint now) {
  if (Status status = check(request); !status) return complete(token, std::move(status));
  if (request.kind == CollectiveKind::join) joined_.push_back(request.process_set);
  auto& queue = waiting_[{request.process_set, request.name}];
  if (!queue.empty() && options_.duplicates_are_errors) {
    return complete(
        token, {Code::duplicate_name,
                fmt::format("{} '{}': a tensor of this name is still pending; wait for it or choose another "
                            "name (DABKE_DUPLICATE_NAMES=queue would queue it)",
                            name_of(request.kind), request.name)});
  }
  queue.push_back({token, request});
  if (queue.size() == 1) announce(std::move(request), now);
}

void Machine::announce(Request request, TimePoint now) {
  if (is_root()) {
    sequencer_->report(options_.rank, std::move(request), now);
  } else {
    announcements_.push_back(std::move(request));
  }
}

void Machine::flush_announcements() {
  if (announcements_.empty() || over_) return;
  send(kRoot, ReadyMessage{std::exchange(announcements_, {})});
}

void Machine::send(Rank peer, const Message& message) {
  SendAction action{peer, {}};
  encode(message, action.message);
  actions_.emplace_back(std::move(action));
}

void Machine::message_from(Rank peer, std::span<const std::byte> bytes, TimePoint now) {
  if (failed_) return;
  auto decoded = decode(bytes);
  if (!decoded)
    return abort({Code::internal, fmt::format("from {}: {}", who(peer), decoded.status().message())});
  Message message = decoded.take();
  if (auto* fail = std::get_if<FailMessage>(&message)) {
    const Status cause(fail->code == Code::ok ? Code::aborted : fail->code, fail->text);
    if (over_) return fail_last_runs(cause);
    if (is_root()) return abort(cause);
    return fail_everything(cause, cause);
  }
  if (is_root()) {
    if (auto* ready = std::get_if<ReadyMessage>(&message); ready && !over_) {
      for (Request& request : ready->requests) sequencer_->report(peer, std::move(request), now);
    } else if (std::holds_alternative<GoodbyeMessage>(message)) {
      sequencer_->goodbye(peer);
    }
    return;
  }
  if (auto* orders = std::get_if<OrdersMessage>(&message)) apply(std::move(*orders), now);
}

/// After this rank's own end its last runs may go on for a while: whoever leaves meanwhile is not lost.
void Machine::note_departure(const Order& order) {
  if (order.kind == Order::Kind::left) left_[static_cast<std::size_t>(order.rank)] = true;
}

void Machine::peer_lost(Rank peer, const Status& cause) {
  peer_gone_[static_cast<std::size_t>(peer)] = true;
  const bool expected = left_[static_cast<std::size_t>(peer)] || (sequencer_ && sequencer_->has_left(peer));
  if (failed_ || expected) return;
  const Status lost(Code::peer_lost,
                    fmt::format("{} (killed, or ended without dabke_shutdown)", cause.message()));
  if (over_) return fail_last_runs(lost);
  if (is_root()) return abort(lost);
  fail_everything(lost, lost);
}

void Machine::fail_last_runs(const Status& cause) {
  failed_ = true;
  actions_.emplace_back(OverAction{cause});
}

void Machine::set_data_plane_busy(bool busy) {
  if (sequencer_) sequencer_->set_data_plane_busy(busy);
}

void Machine::tick(TimePoint now) {
  if (over_ || !sequencer_) return;
  sequencer_->tick(now);
}

TimePoint Machine::next_tick() const { return over_ || !sequencer_ ? kNever : sequencer_->next_tick(); }

void Machine::leave() {
  if (leaving_) return;
  leaving_ = true;
  if (failed_) return;
  if (is_root()) {
    if (!over_) sequencer_->goodbye(options_.rank);
    return;
  }
  flush_announcements();
  send(kRoot, GoodbyeMessage{});
}

void Machine::abort(const Status& cause) {
  if (over_) return;
  const FailMessage message{cause.code(), cause.message()};
  if (!is_root()) {
    send(kRoot, message);
  } else {
    for (Rank peer = 1; peer < options_.sequencer.size; ++peer) {
      if (!peer_gone_[static_cast<std::size_t>(peer)]) send(peer, message);
    }
  }
  fail_everything(cause, cause);
}

std::vector<Action> Machine::take_actions(TimePoint now) {
  flush_announcements();
  // An order may let a queued request of the same name become ready at once, so there may be more after the
  // first.
  while (sequencer_ && !over_) {
    for (std::string& text : sequencer_->take_warnings()) actions_.emplace_back(WarnAction{std::move(text)});
    if (const auto& failure = sequencer_->failure()) {
      abort({failure->code, failure->text});
      break;
    }
    const std::size_t before = actions_.size();
    broadcast_orders(now);
    if (actions_.size() == before) break;
  }
  return std::exchange(actions_, {});
}

std::vector<Sequencer::Readiness> Machine::take_readiness() {
  return sequencer_ ? sequencer_->take_readiness() : std::vector<Sequencer::Readiness>();
}

void Machine::broadcast_orders(TimePoint now) {
  std::vector<Order> orders = sequencer_->take_orders(now);
  if (orders.empty()) return;
  const OrdersMessage header{options_.fusion_threshold, options_.group_fusion, {}};
  std::vector<OrdersMessage> to(left_.size(), header);  // each rank's projection of the sequence
  for (const Order& order : orders) {
    if (order.new_set >= 0) sets_.add(order.new_set, order.request.ranks);
    const auto* members =
        sets_.ranks_of(order.kind == Order::Kind::left ? kWorldSet : order.request.process_set);
    if (members == nullptr) continue;  // removed by an order of this very list
    for (const Rank member : *members) to[static_cast<std::size_t>(member)].orders.push_back(order);
    if (order.kind == Order::Kind::run && order.request.kind == CollectiveKind::remove_process_set) {
      sets_.remove(order.request.ranks.front());
    }
  }
  for (Rank peer = 1; peer < options_.sequencer.size; ++peer) {
    const std::size_t i = static_cast<std::size_t>(peer);
    if (!to[i].orders.empty() && !peer_gone_[i])
      send(peer, to[i]);  // who has left hears of other departures only
  }
  apply(std::move(to[kRoot]), now);
}

void Machine::apply(OrdersMessage message, TimePoint now) {
  ExecuteAction execute{message.fusion_threshold, message.group_fusion, {}};
  for (Order& order : message.orders) {
    if (over_) {
      note_departure(order);
    } else {
      apply(order, execute, now);
    }
  }
  if (!execute.requests.empty()) actions_.emplace_back(std::move(execute));
}

void Machine::apply(Order& order, ExecuteAction& execute, TimePoint now) {
  if (order.kind == Order::Kind::run && moves_data(order.request.kind)) return run(order, execute, now);
  // Everything else keeps its place after the data orders before it.
  if (!execute.requests.empty()) {
    actions_.emplace_back(
        ExecuteAction{execute.fusion_threshold, execute.group_fusion, std::move(execute.requests)});
    execute.requests.clear();
  }
  if (order.kind == Order::Kind::left) return apply_left(order.rank);
  const Waiting mine = take_front({order.request.process_set, order.request.name}, now);
  if (order.kind == Order::Kind::error) {
    if (mine.token) complete(mine.token, {order.error, order.text});
    return;
  }
  switch (order.request.kind) {
    case CollectiveKind::join:
      std::erase(joined_, order.request.process_set);
      return complete(mine.token, {}, order.rank);
    case CollectiveKind::add_process_set:
      sets_.add(order.new_set, order.request.ranks);
      actions_.emplace_back(ProcessSetAction{order.new_set, order.request.ranks});
      break;
    case CollectiveKind::remove_process_set: {
      const ProcessSetId gone = order.request.ranks.front();
      sets_.remove(gone);
      fail_set(gone, {Code::unknown_process_set, fmt::format("process set {} was removed", gone)});
      actions_.emplace_back(ProcessSetAction{gone, {}});
      break;
    }
    default: break;  // barrier
  }
  if (mine.token) complete(mine.token, {}, order.new_set);
}

void Machine::run(Order& order, ExecuteAction& execute, TimePoint now) {
  Waiting mine = take_front({order.request.process_set, order.request.name}, now);
  OrderedRequest ordered{order.number, mine.token, std::move(order.request), {}, order.contributors};
  if (mine.token) {
    ordered.request = std::move(mine.request);
  } else {
    ordered.request = ordered.agreed;
    drop_rows(ordered.request);
  }
  execute.requests.push_back(std::move(ordered));
}

Machine::Waiting Machine::take_front(const Key& key, TimePoint now) {
  const auto found = waiting_.find(key);
  if (found == waiting_.end()) return {};
  Waiting front = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) {
    waiting_.erase(found);
  } else {
    announce(found->second.front().request, now);
  }
  return front;
}

void Machine::apply_left(Rank rank) {
  left_[static_cast<std::size_t>(rank)] = true;
  if (rank == options_.rank || rank == kRoot) {
    const Status cause(Code::shut_down, rank == options_.rank ? "dabke_shutdown was called on this rank"
                                                              : fmt::format("{} has shut down", who(rank)));
    return fail_everything(cause, Status::ok());
  }
  const Status cause(Code::shut_down,
                     fmt::format("{} has shut down and can take part in nothing more", who(rank)));
  for (const ProcessSetId id : sets_.ids()) {
    if (sets_.contains(id, rank)) fail_set(id, cause);
  }
}

void Machine::fail_set(ProcessSetId set, const Status& cause) {
  for (auto entry = waiting_.begin(); entry != waiting_.end();) {
    if (entry->first.first != set) {
      ++entry;
      continue;
    }
    for (const Waiting& waiting : entry->second) {
      complete(waiting.token,
               {cause.code(), fmt::format("'{}' cannot run: {}", waiting.request.name, cause.message())});
    }
    entry = waiting_.erase(entry);
  }
  std::erase(joined_, set);
  std::erase_if(announcements_, [&](const Request& request) { return request.process_set == set; });
}

void Machine::complete(Token token, Status status, std::int64_t value) {
  if (token) actions_.emplace_back(CompleteAction{token, std::move(status), value});
}

void Machine::fail_everything(const Status& cause, const Status& over) {
  over_ = true;
  failed_ = !over.is_ok();
  cause_ = cause;
  for (const auto& [key, queue] : waiting_) {
    for (const Waiting& waiting : queue) {
      complete(waiting.token, {cause.code(), fmt::format("{} '{}': {}", name_of(waiting.request.kind),
                                                         key.second, cause.message())});
    }
  }
  waiting_.clear();
  announcements_.clear();
  joined_.clear();
  actions_.emplace_back(OverAction{over});
}

std::string Machine::who(Rank rank) const {
  const auto& hosts = options_.sequencer.hosts;
  const std::size_t i = static_cast<std::size_t>(rank);
  if (i >= hosts.size() || hosts[i].empty()) return fmt::format("rank {}", rank);
  return fmt::format("rank {} on {}", rank, hosts[i]);
}

}  // namespace dabke
