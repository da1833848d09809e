#include "runtime/negotiation/order_follower.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/negotiation/state/departure.h"
#include "runtime/negotiation/tables/name_key.h"

namespace dabke::negotiation {
namespace {

/// A joined rank takes part without rows if the collective allows it.
RequestRef without_rows(const RequestRef& request) {
  if (!has_free_rows(request->kind)) return request;
  auto empty = std::make_shared<Request>(*request);
  for (TensorSpec& tensor : empty->tensors) tensor.shape.set(0, 0);
  return empty;
}

}  // namespace

void OrderFollower::follow(wire::OrdersMessage message, std::span<const std::byte> bytes, TimePoint now) {
  for (const wire::Order& order : message.orders) {
    if (order.request) state_.meet(order.request->process_set);
  }
  if (!state_.children().empty()) pass_down(message, bytes);
  ExecuteAction execute;
  execute.requests.reserve(message.orders.size());
  execute.tensors.reserve(message.orders.size());
  for (wire::Order& order : message.orders) {
    if (state_.failed) break;
    if (order.forced) reporter_.flush();  // under an older number, so that it is void above as it is here
    state_.last_order = order.number;
    if (!state_.over) {
      apply(order, execute, now);
    } else if (order.kind == wire::Order::Kind::left) {
      note_departure(order.rank, now);
    }
  }
  execute_until_here(execute);
}

bool OrderFollower::concerns(const wire::Order& order, int reporter) const {
  switch (order.kind) {
    case wire::Order::Kind::left:
    case wire::Order::Kind::learned:
    case wire::Order::Kind::release:
    case wire::Order::Kind::timeline:
    case wire::Order::Kind::change: return true;
    default: break;
  }
  if (order.request) return state_.collector.concerns(order.request->process_set, reporter);
  const TensorEntry* entry = state_.cache.find(order.slot);
  return entry != nullptr && state_.collector.concerns(entry->process_set, reporter);
}

void OrderFollower::pass_down(const wire::OrdersMessage& message, std::span<const std::byte> bytes) {
  const auto encoded = [](const wire::OrdersMessage& part) {
    std::vector<std::byte> out;
    wire::encode(part, out);
    return std::make_shared<const std::vector<std::byte>>(std::move(out));
  };
  const bool only_world = state_.sets.count() == 1;  // then every order is for all ranks
  std::shared_ptr<const std::vector<std::byte>> whole;
  for (int reporter = 1; reporter < state_.collector.reporters(); ++reporter) {
    const auto is_for_it = [&](const wire::Order& order) { return only_world || concerns(order, reporter); };
    if (std::ranges::all_of(message.orders, is_for_it)) {
      if (!whole) {
        whole = bytes.empty() ? encoded(message)
                              : std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
      }
      outbox_.send_bytes(state_.collector.rank_of(reporter), whole);
      continue;
    }
    wire::OrdersMessage part;
    std::ranges::copy_if(message.orders, std::back_inserter(part.orders), is_for_it);
    if (!part.orders.empty()) outbox_.send_bytes(state_.collector.rank_of(reporter), encoded(part));
  }
}

void OrderFollower::execute_until_here(ExecuteAction& execute) {
  if (execute.requests.empty()) return;
  if (!std::ranges::is_sorted(execute.tensors, {}, &BatchedTensor::batch)) {
    std::ranges::stable_sort(execute.tensors, {}, &BatchedTensor::batch);
  }
  outbox_.add(std::exchange(execute, {}));
}

void OrderFollower::apply(wire::Order& order, ExecuteAction& execute, TimePoint now) {
  if (order.kind == wire::Order::Kind::run) return apply_run(order, execute, now);
  // Orders that complete, end or begin something keep their turn after the data orders before them. No batch
  // crosses them.
  if (wire::ends_batches(order.kind)) execute_until_here(execute);
  switch (order.kind) {
    case wire::Order::Kind::run: return;  // above
    case wire::Order::Kind::error: return apply_error(order, now);
    case wire::Order::Kind::left: return apply_left(order.rank, now);
    case wire::Order::Kind::evict: return apply_evict(order, now);
    case wire::Order::Kind::learned: return apply_learned(order, now);
    case wire::Order::Kind::release: return apply_release(order, now);
    case wire::Order::Kind::timeline:
      return outbox_.add(TimelineAction{{order.starts, order.marks_cycles, std::move(order.text)}});
    case wire::Order::Kind::change: state_.changes = std::max(state_.changes, order.changes); return;
  }
}

void OrderFollower::apply_run(wire::Order& order, ExecuteAction& execute, TimePoint now) {
  if (order.request && order.request->kind == CollectiveKind::join) {
    execute_until_here(execute);
    return complete_join(order);
  }
  TensorEntry* const entry = entry_of(order);
  if (entry == nullptr) return;
  if (!order.request) order.request = entry->agreed;
  if (!moves_data(order.request->kind)) {
    execute_until_here(execute);
    return complete(order, *entry, now);
  }
  if (order.contributors == 0) {
    order.contributors = static_cast<std::int32_t>(state_.sets.ranks_of(entry->process_set)->size());
  }
  run(order, *entry, execute, now);
}

/// Returns the entry of a run, with the slot that the order gives it. Null if an earlier order has ended the
/// set, or has taken a rank out of it.
TensorEntry* OrderFollower::entry_of(const wire::Order& order) {
  if (!order.request) {
    TensorEntry* const entry = state_.cache.find(order.slot);
    return entry != nullptr && state_.collector.is_open(entry->process_set) ? entry : nullptr;
  }
  if (!state_.collector.is_open(order.request->process_set)) return nullptr;
  TensorEntry& entry = state_.tensors.get(order.request->process_set, NameKey(*order.request));
  if (order.slot != wire::kNoSlot) {
    state_.collector.spell_out(entry);
    entry.batch = 0;  // it was learned for the old signature
    state_.cache.bind(entry, order.slot, order.request);
  }
  return &entry;
}

void OrderFollower::run(wire::Order& order, TensorEntry& entry, ExecuteAction& execute, TimePoint now) {
  const bool member = state_.takes_part_in(entry.process_set);
  Submitted mine = take_front(entry, now);
  if (member) {
    const auto index = static_cast<std::uint32_t>(execute.requests.size());
    const auto tensors = static_cast<std::uint32_t>(order.request->tensors.size());
    for (std::uint32_t i = 0; i < tensors; ++i) {
      const bool spread = i < order.batch_by_tensor.size();
      execute.tensors.push_back({spread ? order.batch_by_tensor[i] : order.batch, index, i});
    }
    OrderedRequest ordered{order.number,
                           mine.token,
                           std::move(order.request),
                           std::move(mine.request),
                           order.contributors,
                           state_.changes_for(entry.process_set)};
    if (mine.token == Token::none) ordered.request = without_rows(ordered.agreed);
    execute.requests.push_back(std::move(ordered));
  }
  state_.tensors.tidy(entry);
}

/// A collective that moves no data.
void OrderFollower::complete(wire::Order& order, TensorEntry& entry, TimePoint now) {
  const Submitted mine = take_front(entry, now);
  const bool is_known = state_.sets.ranks_of(order.new_set) != nullptr;
  if (adds_set(order.request->kind) && !is_known) {
    state_.sets.add(order.new_set, order.request->ranks);
    state_.collector.add_set(order.new_set, order.request->ranks);
    outbox_.add(ProcessSetAction{order.new_set, order.request->ranks, is_among_members(order.request->kind)});
  } else if (removes_set(order.request->kind) && is_known) {
    const ProcessSetId gone = order.new_set;
    const auto why = [gone](const std::string& what) {
      return Status(Code::unknown_process_set,
                    fmt::format("{} cannot run: process set {} was removed", what, gone));
    };
    endings_.fail_set(gone, why);
    endings_.fail_messages_within(gone, why);
    state_.sets.remove(gone);
    state_.collector.remove_set(gone);
    state_.cache.remove_set(gone);
    state_.tensors.remove_set(gone);
    reporter_.remove_set(gone);
    outbox_.add(ProcessSetAction{gone, {}});
  }
  endings_.complete(mine.token, {}, order.new_set, state_.changes_for(entry.process_set));
  state_.tensors.tidy(entry);
}

void OrderFollower::complete_join(const wire::Order& order) {
  const ProcessSetId set = order.request->process_set;
  state_.collector.forget_joins(set);
  const auto join = state_.joins.find(set);
  if (join == state_.joins.end()) return;
  endings_.complete(join->second.token, {}, order.rank, state_.changes_for(set));
  state_.joins.erase(join);
}

void OrderFollower::apply_error(const wire::Order& order, TimePoint now) {
  const ProcessSetId set = order.request->process_set;
  const std::string& key = order.request->name;
  TensorEntry* entry = state_.tensors.find(set, key);
  if (order.forced) reporter_.void_reports(set, key, order.number);
  const Status why(order.error, order.text);
  if (is_group_key(key) && (entry == nullptr || entry->waiting.empty()))
    endings_.fail_incomplete_group(set, key, why);
  if (entry == nullptr) return;
  if (order.forced) entry->collection = {};
  if (entry->held) {
    entry->held = false;
    if (entry->batch != 0) reporter_.report(state_.learned.release(entry->batch), now);
  }
  const Submitted mine = take_front(*entry, now);
  endings_.complete(mine.token, why);
  state_.tensors.tidy(*entry);
}

void OrderFollower::apply_evict(const wire::Order& order, TimePoint now) {
  TensorEntry* entry = state_.cache.find(order.slot);
  if (entry == nullptr) return;
  state_.collector.spell_out(*entry);
  if (state_.sequencer) state_.sequencer->spell_out(order.slot);
  reporter_.evict(*entry, order.number);
  entry->batch = 0;
  if (std::exchange(entry->held, false)) reporter_.announce(*entry, now);
  state_.tensors.tidy(*entry);
}

void OrderFollower::apply_learned(const wire::Order& order, TimePoint now) {
  reporter_.report(state_.learned.release_all(), now);
  state_.tensors.for_each([](TensorEntry& entry) { entry.batch = 0; });
  // This rank has no tensors of other sets.
  std::vector<wire::LearnedBatch> mine;
  for (const wire::LearnedBatch& batch : order.batches) {
    wire::LearnedBatch known{batch.hold_us, {}};
    for (const wire::Slot slot : batch.slots) {
      const TensorEntry* entry = state_.cache.find(slot);
      if (entry != nullptr && state_.takes_part_in(entry->process_set)) known.slots.push_back(slot);
    }
    if (known.slots.empty()) continue;
    mine.push_back(std::move(known));
    for (const wire::Slot slot : mine.back().slots) {
      state_.cache.find(slot)->batch = static_cast<std::uint32_t>(mine.size());
    }
  }
  (void)state_.learned.learn(mine);
}

void OrderFollower::apply_release(const wire::Order& order, TimePoint now) {
  if (order.slot == wire::kNoSlot) return reporter_.report(state_.learned.release_all(), now);
  if (TensorEntry* entry = state_.cache.find(order.slot)) reporter_.let_go(*entry, now);
}

Submitted OrderFollower::take_front(TensorEntry& entry, TimePoint now) {
  entry.awaited = false;
  entry.ordered_at = state_.last_order;
  groups_.note_order(entry);
  if (!state_.joins.empty()) {
    if (const auto join = state_.joins.find(entry.process_set); join != state_.joins.end())
      join->second.moved_at = now;
  }
  stalls_.note_progress(entry.process_set);
  if (entry.waiting.empty()) return {};
  Submitted front = entry.waiting.pop(now);
  senders_.note_order(entry);
  if (entry.waiting.empty()) return front;
  reporter_.announce(entry, now);
  senders_.note_wait(entry);
  if (entry.waiting.size() == 1) reporter_.announce_join(entry.process_set, now);
  return front;
}

void OrderFollower::note_departure(Rank rank, TimePoint now) {
  for (const Rank gone : state_.options.topology->subtree(rank)) {
    const auto place = static_cast<std::size_t>(gone);
    if (!state_.left[place]) state_.left_at[place] = now;
    state_.left[place] = true;
  }
}

void OrderFollower::apply_left(Rank rank, TimePoint now) {
  note_departure(rank, now);
  if (state_.first_left < 0) state_.first_left = rank;
  if (state_.has_left(state_.options.rank)) {
    if (rank == state_.options.rank)
      return endings_.end({Code::shut_down, "dabke_shutdown was called on this rank"}, Status::ok(), now);
    state_.ended_by = departure_from(state_, {state_.first_left});
    if (rank != state_.first_left) state_.ended_by.who += fmt::format(", and then {},", state_.who(rank));
    return endings_.end({Code::shut_down, state_.ended_by.who + " has shut down"}, Status::ok(), now);
  }
  for (const ProcessSetId id : state_.sets.ids()) {
    const auto& ranks = *state_.sets.ranks_of(id);
    if (std::ranges::none_of(ranks, [&](Rank r) { return state_.has_left(r); })) continue;
    if (state_.collector.is_open(id)) {
      state_.collector.end_set(id);
      endings_.fail_set(id, [&, departure = departure_from(state_, ranks)](const std::string& what) {
        return departed(state_, departure, what, now);
      });
      state_.tensors.for_each([&](TensorEntry& entry) {
        if (entry.process_set == id) entry.collection = {};
      });
    }
  }
}

}  // namespace dabke::negotiation
