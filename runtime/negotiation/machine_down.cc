// The machine's way down: orders, and what they do here.
#include <algorithm>

#include <fmt/format.h>

#include "runtime/negotiation/machine.h"
#include "runtime/negotiation/name_key.h"

namespace dabke {
namespace {

/// A joined rank takes part with no rows where it may.
RequestRef without_rows(const RequestRef& request) {
  if (!has_free_rows(request->kind)) return request;
  auto empty = std::make_shared<Request>(*request);
  for (TensorSpec& tensor : empty->tensors) tensor.shape.set(0, 0);
  return empty;
}

}  // namespace

void Machine::broadcast_orders(TimePoint now) {
  OrdersMessage message{sequencer_->take_orders(now)};
  if (message.orders.empty()) return;
  if (!children().empty()) pass_down(message, nullptr);
  apply(std::move(message), now);
}

bool Machine::concerns(const Order& order, int reporter) const {
  switch (order.kind) {
    case Order::Kind::left:
    case Order::Kind::learned:
    case Order::Kind::release: return true;
    default: break;
  }
  if (order.request) return collector_.concerns(order.request->process_set, reporter);
  const TensorEntry* entry = cache_.find(order.slot);
  return entry != nullptr && collector_.concerns(entry->process_set, reporter);
}

/// `bytes`: the message, if it came as one.
void Machine::pass_down(const OrdersMessage& message, std::shared_ptr<const std::vector<std::byte>> bytes) {
  const auto encoded = [](const OrdersMessage& part) {
    std::vector<std::byte> out;
    encode(part, out);
    return std::make_shared<const std::vector<std::byte>>(std::move(out));
  };
  const bool only_world = sets_.count() == 1;  // then every order is for everybody
  for (int reporter = 1; reporter < collector_.reporters(); ++reporter) {
    const auto is_for_it = [&](const Order& order) { return only_world || concerns(order, reporter); };
    if (std::ranges::all_of(message.orders, is_for_it)) {
      if (!bytes) bytes = encoded(message);
      send_bytes(collector_.rank_of(reporter), bytes);
      continue;
    }
    OrdersMessage part;
    std::ranges::copy_if(message.orders, std::back_inserter(part.orders), is_for_it);
    if (!part.orders.empty()) send_bytes(collector_.rank_of(reporter), encoded(part));
  }
}

void Machine::apply(OrdersMessage message, TimePoint now) {
  ExecuteAction execute;
  execute.requests.reserve(message.orders.size());
  execute.tensors.reserve(message.orders.size());
  for (Order& order : message.orders) {
    if (failed_) break;
    if (order.forced) flush_up();  // under a number from before it, so that it is void above as it is here
    last_order_ = order.number;
    if (!over_) {
      apply(order, execute, now);
    } else if (order.kind == Order::Kind::left) {
      note_departure(order.rank);
    }
  }
  execute_until_here(execute);
}

void Machine::execute_until_here(ExecuteAction& execute) {
  if (execute.requests.empty()) return;
  if (!std::ranges::is_sorted(execute.tensors, {}, &BatchedTensor::batch)) {
    std::ranges::stable_sort(execute.tensors, {}, &BatchedTensor::batch);
  }
  actions_.emplace_back(std::exchange(execute, {}));
}

void Machine::apply(Order& order, ExecuteAction& execute, TimePoint now) {
  TensorEntry* entry = nullptr;
  if (order.kind == Order::Kind::run) {
    if (order.request && order.request->kind != CollectiveKind::join) {
      if (!collector_.is_open(order.request->process_set)) return;
      entry = &tensors_.get(order.request->process_set, NameKey(*order.request));
      if (order.slot != kNoSlot) {
        collector_.spell_out(*entry);
        entry->batch = 0;  // that was learned of the old signature
        cache_.bind(*entry, order.slot, order.request);
      }
    } else if (!order.request) {
      entry = cache_.find(order.slot);
      // The set is gone, or a rank has left it by an order before this one.
      if (entry == nullptr || !collector_.is_open(entry->process_set)) return;
    }
    const RequestRef& agreed = order.request ? order.request : entry->agreed;
    if (moves_data(agreed->kind)) {
      if (!order.request) order.request = entry->agreed;
      if (order.contributors == 0) {
        order.contributors = static_cast<std::int32_t>(sets_.ranks_of(entry->process_set)->size());
      }
      return run(order, *entry, execute, now);
    }
    if (!order.request) order.request = entry->agreed;
  }
  // What completes or ends something keeps its place after the data orders before it; no batch crosses it.
  if (ends_batches(order.kind)) execute_until_here(execute);
  switch (order.kind) {
    case Order::Kind::run: {
      if (entry != nullptr) return complete_order(order, *entry, now);
      const ProcessSetId set = order.request->process_set;  // a join
      collector_.forget_joins(set);
      const auto join = joins_.find(set);
      if (join == joins_.end()) return;
      complete(join->second.token, {}, order.rank);
      joins_.erase(join);
      return;
    }
    case Order::Kind::error: return apply_error(order, now);
    case Order::Kind::left: return apply_left(order.rank);
    case Order::Kind::evict: return apply_evict(order, now);
    case Order::Kind::learned: return apply_learned(order, now);
    case Order::Kind::release: return apply_release(order, now);
  }
}

void Machine::run(Order& order, TensorEntry& entry, ExecuteAction& execute, TimePoint now) {
  const bool member = sets_.contains(entry.process_set, options_.rank);
  Submitted mine = take_front(entry, now);
  if (member) {
    const auto index = static_cast<std::uint32_t>(execute.requests.size());
    const auto tensors = static_cast<std::uint32_t>(order.request->tensors.size());
    for (std::uint32_t i = 0; i < tensors; ++i) {
      const bool spread = i < order.batch_by_tensor.size();
      execute.tensors.push_back({spread ? order.batch_by_tensor[i] : order.batch, index, i});
    }
    OrderedRequest ordered{order.number, mine.token, std::move(order.request), std::move(mine.request),
                           order.contributors};
    if (mine.token == Token::none) ordered.request = without_rows(ordered.agreed);
    execute.requests.push_back(std::move(ordered));
  }
  tensors_.tidy(entry);
}

/// Completes a collective that moves no data.
void Machine::complete_order(Order& order, TensorEntry& entry, TimePoint now) {
  const Submitted mine = take_front(entry, now);
  if (order.request->kind == CollectiveKind::add_process_set) {
    sets_.add(order.new_set, order.request->ranks);
    collector_.add_set(order.new_set, order.request->ranks);
    actions_.emplace_back(ProcessSetAction{order.new_set, order.request->ranks});
  } else if (order.request->kind == CollectiveKind::remove_process_set) {
    const ProcessSetId gone = order.request->ranks.front();
    fail_set(gone, {Code::unknown_process_set, fmt::format("process set {} was removed", gone)});
    sets_.remove(gone);
    collector_.remove_set(gone);
    cache_.remove_set(gone);
    tensors_.remove_set(gone);
    last_joined_.erase(gone);
    actions_.emplace_back(ProcessSetAction{gone, {}});
  }
  if (mine.token != Token::none) complete(mine.token, {}, order.new_set);
  tensors_.tidy(entry);
}

void Machine::apply_error(const Order& order, TimePoint now) {
  const ProcessSetId set = order.request->process_set;
  TensorEntry* entry = tensors_.find(set, order.request->name);  // its key
  if (order.forced) {
    if (has_reporters_below(set)) voids_.push_back({set, order.request->name, order.number});
    untold_ += kMostUntold;  // every report is compared with these, so the parent is told at once
  }
  const std::string& key = order.request->name;
  const Status why(order.error, order.text);
  if (is_group_key(key) && (entry == nullptr || entry->waiting.empty())) fail_incomplete_group(set, key, why);
  if (entry == nullptr) return;
  if (order.forced) entry->collection = {};
  if (entry->held) {
    entry->held = false;
    if (entry->batch != 0) report_slots(learned_.release(entry->batch), now);
  }
  const Submitted mine = take_front(*entry, now);
  if (mine.token != Token::none) complete(mine.token, why);
  tensors_.tidy(*entry);
}

void Machine::apply_evict(const Order& order, TimePoint now) {
  TensorEntry* entry = cache_.find(order.slot);
  if (entry == nullptr) return;
  collector_.spell_out(*entry);
  if (sequencer_) sequencer_->spell_out(order.slot);
  if (has_reporters_below(entry->process_set)) {
    cache_.evict(*entry, order.number);
  } else {
    cache_.unbind(*entry);
  }
  ++untold_;
  entry->batch = 0;
  if (std::exchange(entry->held, false)) announce(*entry, now);
  tensors_.tidy(*entry);
}

void Machine::apply_learned(const Order& order, TimePoint now) {
  report_slots(learned_.release_all(), now);
  tensors_.for_each([](TensorEntry& entry) { entry.batch = 0; });
  // This rank knows nothing of other sets' tensors.
  std::vector<LearnedBatch> mine;
  for (const LearnedBatch& batch : order.batches) {
    LearnedBatch known{batch.hold_us, {}};
    for (const Slot slot : batch.slots) {
      const TensorEntry* entry = cache_.find(slot);
      if (entry != nullptr && sets_.contains(entry->process_set, options_.rank)) known.slots.push_back(slot);
    }
    if (known.slots.empty()) continue;
    mine.push_back(std::move(known));
    for (const Slot slot : mine.back().slots) {
      cache_.find(slot)->batch = static_cast<std::uint32_t>(mine.size());
    }
  }
  (void)learned_.learn(mine);
}

void Machine::apply_release(const Order& order, TimePoint now) {
  if (order.slot == kNoSlot) return report_slots(learned_.release_all(), now);
  if (TensorEntry* entry = cache_.find(order.slot)) let_go(*entry, now);
}

Submitted Machine::take_front(TensorEntry& entry, TimePoint now) {
  entry.awaited = false;
  entry.ordered_at = last_order_;
  forget_group_inquiry(entry);
  if (!joins_.empty() || !inquiries_.empty()) note_progress(entry.process_set, now);
  if (entry.waiting.empty()) return {};
  Submitted front = entry.waiting.pop(now);
  if (entry.waiting.empty()) return front;
  announce(entry, now);
  if (entry.waiting.size() == 1) announce_join(entry.process_set, now);
  return front;
}

void Machine::note_departure(Rank rank) {
  for (const Rank gone : options_.topology->subtree(rank)) left_[static_cast<std::size_t>(gone)] = true;
}

void Machine::apply_left(Rank rank) {
  note_departure(rank);
  if (left_[static_cast<std::size_t>(options_.rank)]) {
    const Status cause(Code::shut_down, rank == options_.rank ? "dabke_shutdown was called on this rank"
                                                              : fmt::format("{} has shut down", who(rank)));
    return fail_everything(cause, Status::ok());
  }
  const Status cause(Code::shut_down,
                     fmt::format("{} has shut down and can take part in nothing more", who(rank)));
  for (const ProcessSetId id : sets_.ids()) {
    const auto& ranks = *sets_.ranks_of(id);
    if (std::ranges::none_of(ranks, [&](Rank r) { return left_[static_cast<std::size_t>(r)]; })) continue;
    if (collector_.is_open(id)) {
      collector_.end_set(id);
      fail_set(id, cause);
      tensors_.for_each([&](TensorEntry& entry) {
        if (entry.process_set == id) entry.collection = {};
      });
    }
  }
}

}  // namespace dabke
