#include "runtime/negotiation/state/sequencer.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include <fmt/format.h>

#include "runtime/base/pair_sets.h"
#include "runtime/base/text/message_name.h"
#include "runtime/call/process_set_list.h"
#include "runtime/negotiation/batching/batch_marks.h"
#include "runtime/negotiation/tables/name_key.h"

namespace dabke::negotiation {
namespace {

bool has_a_signature(CollectiveKind kind) { return moves_data(kind) || kind == CollectiveKind::barrier; }

/// True if it may be part of a learned batch. A message is not: the two ranks of a pair may be in different
/// steps of the others.
bool is_learned(CollectiveKind kind) { return moves_data(kind) && kind != CollectiveKind::send_recv; }

/// Returns why the rank has refused the request, without the name of the call if the text begins with it.
std::string_view reason_of(const Request& request) {
  const std::string call = name_of_call(request) + ": ";
  std::string_view reason = request.refused.message();
  if (reason.starts_with(call)) reason.remove_prefix(call.size());
  return reason;
}

/// Returns what is to be done first on that rank.
std::string_view remedy_for(Code code) {
  return code == Code::out_of_memory ? "free memory there, or let the allocator return enough, and"
                                     : "correct the call there, and let every rank";
}

}  // namespace

Sequencer::Sequencer(Options options, std::shared_ptr<const Topology> topology, const TensorTable& tensors,
                     const ResponseCache& cache)
    : options_(options),
      topology_(std::move(topology)),
      tensors_(tensors),
      cache_(cache),
      sets_(topology_->everybody()),
      slots_(options.cache_capacity),
      learner_(options.learned_batch_bytes),
      ready_(options.linger_limit) {}

void Sequencer::push(wire::Order order, TimePoint now, TensorEntry* entry, RequestRef request) {
  ready_.push({std::move(order), entry, std::move(request), now});
}

void Sequencer::push_error(ProcessSetId set, const std::string& name, Code code, std::string text,
                           bool forced, TimePoint now) {
  Request request;
  request.name = name;
  request.process_set = set;
  wire::Order order;
  order.kind = wire::Order::Kind::error;
  order.request = std::make_shared<const Request>(std::move(request));
  order.error = code;
  order.text = std::move(text);
  order.forced = forced;
  push(std::move(order), now);
}

void Sequencer::force_error(ProcessSetId set, const std::string& name, Code code, std::string text,
                            TimePoint now) {
  const TensorEntry* known = tensors_.find(set, name);
  if (known != nullptr && known->in_ready_list) return;  // all ranks have come meanwhile
  push_error(set, name, code, std::move(text), true, now);
}

void Sequencer::complete(TensorEntry& entry, Collector::Taken taken, TimePoint now) {
  const bool is_message = is_pair(entry.process_set);
  if (is_message) sets_.meet(entry.process_set);
  const auto* ranks = sets_.ranks_of(entry.process_set);
  // The set's removal is under way, and fails what waits there.
  if (ranks == nullptr || (is_message && sets_.ranks_of(set_of_message(entry.name)) == nullptr)) return;
  // The entry's reports are void when the error is ordered. Another order would meet the next request of the
  // name.
  if (is_being_failed(entry.process_set, entry.name)) return;
  wire::Order order;
  if (taken.by_slot) {
    order.slot = entry.slot;
    return push(std::move(order), now, &entry, entry.agreed);
  }
  if (const Status refusal = refusal_in(taken.report); !refusal.is_ok()) {
    return push_error(entry.process_set, entry.name, refusal.code(), refusal.message(), false, now);
  }
  if (taken.report.variants.size() > 1) return push_mismatch(entry, taken.report, now);

  if (taken.not_served) return push_not_served(entry, taken, now);

  const RequestRef request = taken.report.variants.front().request;
  const auto fail = [&](Code code, std::string text) {
    push_error(entry.process_set, entry.name, code, std::move(text), false, now);
  };
  const auto all = static_cast<std::int32_t>(ranks->size());
  const bool everybody = taken.report.contributors == all;
  if (!everybody) {
    if (const Status can = check_joined(entry, taken.report); !can.is_ok())
      return fail(can.code(), can.message());
  }
  if (request->kind == CollectiveKind::broadcast &&
      (taken.report.root_absent || sets_.set_rank(entry.process_set, request->root) < 0)) {
    return fail(Code::invalid_argument,
                fmt::format("broadcast '{}': root rank {} has joined and has no data to send; "
                            "broadcast from a rank that still takes part",
                            entry.name, request->root));
  }
  const Status changed = adds_set(request->kind)      ? add_set(*request, order)
                         : removes_set(request->kind) ? remove_set(*request, order)
                                                      : Status::ok();
  if (!changed.is_ok()) return fail(changed.code(), changed.message());
  order.request = request;
  order.contributors = everybody ? 0 : options_.joins_as_horovod ? all : taken.report.contributors;
  push(std::move(order), now, &entry, request);
}

/// Refuses what DABKE_JOIN=horovod forbids beside ranks that have joined. Any of it could run if they had
/// not.
Status Sequencer::check_joined(const TensorEntry& entry, const wire::Report& report) const {
  const CollectiveKind kind = report.variants.front().request->kind;
  if (!options_.joins_as_horovod || !moves_data(kind) || kind == CollectiveKind::allreduce) return {};
  return {
      Code::invalid_argument,
      fmt::format("{} {} cannot run: {} {} joined process set {}, and with DABKE_JOIN=horovod only allreduce "
                  "and barrier run then; submit it before any rank joins, or use DABKE_JOIN=dabke",
                  name_of(kind), shown(entry.name), topology_->names(report.joined),
                  report.joined.size() == 1 ? "has" : "have", entry.process_set)};
}

Status Sequencer::add_set(const Request& request, wire::Order& order) {
  const bool by_members = is_among_members(request.kind);
  const auto existing = sets_.find(request.ranks);
  if (existing && !by_members && holds_.is_held_by_job(*existing)) {
    return {Code::invalid_argument, fmt::format("a process set of ranks {} exists already: its id is {}",
                                                ranks_to_string(request.ranks), *existing)};
  }
  order.new_set = existing.value_or(sets_.next_id());
  if (!existing) sets_.add(order.new_set, request.ranks);
  if (by_members) {
    holds_.hold_by_members(order.new_set);
  } else {
    holds_.hold_by_job(order.new_set);
  }
  return {};
}

Status Sequencer::remove_set(const Request& request, wire::Order& order) {
  const bool by_members = is_among_members(request.kind);
  const ProcessSetId id =
      by_members ? sets_.find(request.ranks).value_or(-1) : static_cast<ProcessSetId>(request.ranks.front());
  if (sets_.ranks_of(id) == nullptr) {
    return {Code::unknown_process_set, by_members
                                           ? fmt::format("a process set of ranks {} does not exist any more",
                                                         ranks_to_string(request.ranks))
                                           : fmt::format("process set {} does not exist any more", id)};
  }
  if (by_members ? !holds_.is_held_by_members(id) : !holds_.is_held_by_job(id)) {
    return {Code::invalid_argument,
            fmt::format("process set {} was {}", id,
                        by_members ? "not added by its members alone, or was removed as often as it was added"
                                   : "added by its members alone, so only they can remove it")};
  }
  if (!(by_members ? holds_.release_by_members(id) : holds_.release_by_job(id))) return {};
  sets_.remove(id);  // the set's ranks fail what is pending there when they receive this order
  order.new_set = id;
  return {};
}

/// Returns why some rank cannot run the request; ok if all can.
Status Sequencer::refusal_in(const wire::Report& report) const {
  std::string why;
  Code code = Code::ok;
  for (const wire::RequestVariant& variant : report.variants) {
    const Request& request = *variant.request;
    if (request.refused.is_ok()) continue;
    if (code == Code::ok) code = request.refused.code();
    why += fmt::format("{} {}: {}", why.empty() ? "" : ";",
                       variant.ranks.empty() ? "every rank" : topology_->names(variant.ranks),
                       reason_of(request));
  }
  if (code == Code::ok) return {};
  const Request& first = *report.variants.front().request;
  return {code, fmt::format("{} cannot run:{}. No data has moved and the job continues; {} submit it again",
                            name_of_call(first), why, remedy_for(code))};
}

void Sequencer::push_mismatch(const TensorEntry& entry, const wire::Report& report, TimePoint now) {
  auto variants = report.variants;
  std::ranges::sort(variants, {},
                    [](const wire::RequestVariant& v) { return v.ranks.empty() ? -1 : v.ranks.front(); });
  const std::string what = difference(*variants[0].request, *variants[1].request);
  std::string text =
      fmt::format("Mismatched {} for {}{}:", what, shown(entry.name),
                  is_pair(entry.process_set) ? "" : fmt::format(" in process set {}", entry.process_set));
  for (std::size_t i = 0; i < variants.size(); ++i) {
    text += fmt::format("{} {} submitted {}", i ? ";" : "", topology_->names(variants[i].ranks),
                        variants[i].request->describe());
  }
  text += fmt::format(". {} must pass the same {}.",
                      is_pair(entry.process_set) ? "Both ranks" : "Every rank of the process set", what);
  push_error(entry.process_set, entry.name, Code::mismatch, std::move(text), false, now);
}

void Sequencer::push_not_served(const TensorEntry& entry, const Collector::Taken& taken, TimePoint now) {
  const Request& request = *taken.report.variants.front().request;
  const std::string_view type = name_of(request.device_type);
  std::string text = fmt::format(
      "{} {} cannot run: {} has joined and has no {} device; submit nothing on {} after a rank without such "
      "a device has joined, or give every rank of process set {} one",
      name_of(request.kind), shown(entry.name), topology_->name(*taken.not_served), type, type,
      entry.process_set);
  push_error(entry.process_set, entry.name, Code::invalid_argument, std::move(text), false, now);
}

void Sequencer::all_joined(ProcessSetId id, Rank last, TimePoint now) {
  Request request;
  request.kind = CollectiveKind::join;
  request.process_set = id;
  wire::Order order;
  order.request = std::make_shared<const Request>(std::move(request));
  order.rank = last;
  const RequestRef shared = order.request;
  push(std::move(order), now, nullptr, shared);
}

void Sequencer::goodbye(Rank rank, TimePoint now) {
  wire::Order order;
  order.kind = wire::Order::Kind::left;
  order.rank = rank;
  push(std::move(order), now);
}

void Sequencer::wanted(wire::Slot slot, TimePoint now) {
  ready_.flush();
  if (!learner_.has_learned()) return;
  learner_.wanted(slot);
  wire::Order order;
  order.kind = wire::Order::Kind::release;
  push(std::move(order), now);
}

/// The learned step stays: ranks are often late by themselves, and the step then comes out the same.
void Sequencer::awaited(const TensorEntry& entry, TimePoint now) {
  if (entry.in_ready_list || !learner_.has_learned()) return;
  wire::Order order;
  order.kind = wire::Order::Kind::release;
  order.slot = entry.slot;
  push(std::move(order), now);
}

void Sequencer::change_timeline(wire::TimelineChange change, TimePoint now) {
  wire::Order order;
  order.kind = wire::Order::Kind::timeline;
  order.starts = change.starts;
  order.marks_cycles = change.marks_cycles;
  order.text = std::move(change.path);
  push(std::move(order), now);
}

std::vector<wire::Order> Sequencer::take_orders(TimePoint now) {
  if (ready_.empty()) return {};
  ready_.take(now, going_);
  if (going_.empty()) return {};
  mark_batches();
  std::vector<wire::Order> orders;
  orders.reserve(going_.size());
  for (ReadyOrder& ready : going_) sequence(std::move(ready), orders);
  going_.clear();
  announce_learned(orders);
  return orders;
}

void Sequencer::mark_batches() {
  const RequestRef& first = going_.front().request;
  const bool is_one_tensor = going_.size() == 1 && (first == nullptr || first->tensors.size() <= 1);
  if (is_one_tensor) return;  // marked already: with number 0
  std::vector<UnmarkedOrder> unmarked;
  unmarked.reserve(going_.size());
  for (ReadyOrder& ready : going_) {
    const std::uint64_t learned = ready.order.request ? 0 : learned_batch_of(ready.order.slot);
    unmarked.push_back({&ready.order, ready.request.get(), learned});
  }
  dabke::negotiation::mark_batches(unmarked, options_.fusion);
}

std::uint64_t Sequencer::learned_batch_of(wire::Slot slot) const {
  const wire::SlotIndex index = wire::index_of(slot);
  return index < learned_.size() && learned_[index].slot == slot ? learned_[index].batch : 0;
}

void Sequencer::number(wire::Order order, std::vector<wire::Order>& orders) {
  order.number = next_number_++;
  orders.push_back(std::move(order));
}

/// Orders what was announced, if `next` is a run in the world.
void Sequencer::order_change(const ReadyOrder& next, std::vector<wire::Order>& orders) {
  if (next.order.kind != wire::Order::Kind::run) return;
  const ProcessSetId set = next.entry != nullptr ? next.entry->process_set : next.request->process_set;
  if (set != kWorldSet) return;
  wire::Order order;
  order.kind = wire::Order::Kind::change;
  order.changes = std::exchange(changes_, 0);
  number(std::move(order), orders);
}

void Sequencer::sequence(ReadyOrder ready, std::vector<wire::Order>& orders) {
  wire::Order& order = ready.order;
  if (changes_ != 0) order_change(ready, orders);
  if (order.kind == wire::Order::Kind::run && removes_set(ready.request->kind) && order.new_set > kWorldSet)
    slots_.give_back_all(order.new_set);
  if (order.kind != wire::Order::Kind::run || ready.entry == nullptr) return number(std::move(order), orders);
  ready.entry->in_ready_list = false;
  if (order.request) {
    if (is_learned(ready.request->kind)) learner_.disturbed();
    // A rank that has joined may not know the signature. So the order has it in full, and it is valid this
    // once.
    if (order.contributors == 0 && has_a_signature(ready.request->kind)) {
      if (ready.entry->slot != wire::kNoSlot)
        slots_.give_back(ready.entry->slot);  // the signature has changed
      order.slot = take_slot(ready.entry->process_set, orders).value_or(wire::kNoSlot);
      // The old slot is free then, so the old signature never stays for lack of a new slot.
      assert(order.slot != wire::kNoSlot || ready.entry->slot == wire::kNoSlot);
    }
  } else {
    slots_.touch(order.slot);
    if (is_learned(ready.request->kind)) learner_.ordered(order.slot, ready.request, ready.at);
  }
  number(std::move(order), orders);
}

std::optional<wire::Slot> Sequencer::take_slot(ProcessSetId set, std::vector<wire::Order>& orders) {
  if (const auto slot = slots_.take(set)) return slot;
  return evict_one(orders) ? slots_.take(set) : std::nullopt;
}

bool Sequencer::evict_one(std::vector<wire::Order>& orders) {
  for (const wire::Slot slot : slots_.by_age()) {
    const TensorEntry* entry = cache_.find(slot);
    // A slot that was given in this same list is not in the cache yet.
    if (entry == nullptr || entry->in_ready_list || !entry->collection.empty()) continue;
    wire::Order order;
    order.kind = wire::Order::Kind::evict;
    order.slot = slot;
    number(std::move(order), orders);
    slots_.give_back(slot);
    return true;
  }
  return false;
}

void Sequencer::announce_learned(std::vector<wire::Order>& orders) {
  auto change = learner_.take_change();
  if (!change) return;
  learned_.clear();
  for (std::uint32_t i = 0; i < change->size(); ++i) {
    for (const wire::Slot slot : (*change)[i].slots) {
      if (wire::index_of(slot) >= learned_.size()) learned_.resize(wire::index_of(slot) + 1);
      learned_[wire::index_of(slot)] = {slot, i + 1};
    }
  }
  wire::Order order;
  order.kind = wire::Order::Kind::learned;
  order.batches = std::move(*change);
  number(std::move(order), orders);
}

}  // namespace dabke::negotiation
