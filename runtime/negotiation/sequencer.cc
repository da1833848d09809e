#include "runtime/negotiation/sequencer.h"

#include <algorithm>

#include <fmt/format.h>

namespace dabke {
namespace {

// Two ranks may well submit one name to two overlapping sets in opposite order and wait for neither; only
// when nothing has resolved it for this long is it the mistake of passing different process sets.
constexpr Duration kProcessSetGrace = std::chrono::seconds(1);

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

Sequencer::Sequencer(Options options)
    : options_(std::move(options)), sets_(options_.size), left_(at(options_.size)) {
  states_[kWorldSet];
}

void Sequencer::report(Rank rank, Request request, TimePoint now) {
  const ProcessSetId id = request.process_set;
  const int index = sets_.index_in(id, rank);
  // The rank learns from the order stream that the set or one of its ranks is gone, and fails the request by
  // itself.
  if (index < 0 || holds_left_rank(id)) return;
  if (request.kind == CollectiveKind::join) return join(rank, request);

  SetState& set = states_[id];
  auto [entry, fresh] = set.pending.try_emplace(request.name);
  Pending& pending = entry->second;
  const std::string name = request.name;
  if (fresh) {
    pending.reported.resize(sets_.ranks_of(id)->size());
    pending.since = pending.warned = now;
  }
  if (pending.reported[at(index)]) {
    failure_ = FailMessage{Code::internal,
                           fmt::format("rank {} reported '{}' twice before it was ordered", rank, name)};
    return;
  }
  pending.reported[at(index)] = true;
  ++pending.count;

  const auto same = std::ranges::find_if(
      pending.variants, [&](const Variant& v) { return difference(v.request, request).empty(); });
  const CollectiveKind kind = request.kind;
  if (same != pending.variants.end()) {
    same->ranks.insert(std::ranges::upper_bound(same->ranks, rank), rank);
  } else {
    pending.variants.push_back({std::move(request), {rank}});
  }
  const bool complete = is_complete(set, pending);
  readiness_.push_back({name, kind, index, fresh, complete});
  if (complete) {
    if (ready_.empty()) ready_since_ = now;
    return finish(id, name);
  }
  if (options_.stall_check > Duration::zero()) {
    next_check_ = std::min(next_check_, pending.since + options_.stall_check);
  }
  suspect_process_sets(id, name, now);
}

void Sequencer::join(Rank rank, const Request& request) {
  const ProcessSetId id = request.process_set;
  const std::vector<Rank>& ranks = *sets_.ranks_of(id);
  SetState& set = states_[id];
  set.joined.resize(ranks.size());
  auto joined = set.joined[at(sets_.index_in(id, rank))];
  if (joined) {
    failure_ = FailMessage{Code::internal, fmt::format("rank {} joined process set {} twice", rank, id)};
    return;
  }
  joined = true;
  ++set.joined_count;
  finish_all_complete(id);
  if (set.joined_count < static_cast<int>(ranks.size())) return;
  Order order;
  order.request = request;
  order.contributors = static_cast<int>(ranks.size());
  order.rank = rank;
  ready_.push_back(std::move(order));
  must_flush_ = true;
  set.joined.clear();
  set.joined_count = 0;
}

void Sequencer::goodbye(Rank rank) {
  if (left_[at(rank)]) return;
  left_[at(rank)] = true;
  for (auto& [id, set] : states_) {
    if (sets_.contains(id, rank)) set.pending.clear();
  }
  Order order;
  order.kind = Order::Kind::left;
  order.rank = rank;
  ready_.push_back(std::move(order));
  must_flush_ = true;
}

bool Sequencer::is_complete(const SetState& set, const Pending& pending) const {
  if (set.joined_count == 0) return pending.count == static_cast<int>(pending.reported.size());
  for (std::size_t i = 0; i < pending.reported.size(); ++i) {
    if (!pending.reported[i] && !set.joined[i]) return false;
  }
  return true;
}

void Sequencer::finish(ProcessSetId id, const std::string& name) {
  auto node = states_[id].pending.extract(name);
  ready_.push_back(decide(id, std::move(node.mapped())));
  if (ready_.back().kind == Order::Kind::error) must_flush_ = true;
}

void Sequencer::finish_all_complete(ProcessSetId id) {
  SetState& set = states_[id];
  std::vector<std::string> complete;
  for (const auto& [name, pending] : set.pending) {
    if (is_complete(set, pending)) complete.push_back(name);
  }
  for (const std::string& name : complete) finish(id, name);
}

Order Sequencer::decide(ProcessSetId id, Pending pending) {
  if (pending.variants.size() > 1) {
    std::ranges::sort(pending.variants, {}, [](const Variant& v) { return v.ranks.front(); });
    return mismatch(pending);
  }
  Request& request = pending.variants.front().request;
  Order order;
  if (request.kind == CollectiveKind::broadcast) {
    const int root = sets_.index_in(id, request.root);
    if (root < 0 || !pending.reported[at(root)]) {
      return error_order(
          request, Code::invalid_argument,
          fmt::format("broadcast '{}': root rank {} has joined and has no data to send; broadcast "
                      "from a rank that still takes part",
                      request.name, request.root));
    }
  }
  if (request.kind == CollectiveKind::add_process_set) {
    if (const auto existing = sets_.find(request.ranks)) {
      return error_order(request, Code::invalid_argument,
                         fmt::format("a process set of ranks {} exists already: its id is {}",
                                     ranks_to_string(request.ranks), *existing));
    }
    order.new_set = sets_.next_id();
    sets_.add(order.new_set, request.ranks);
    states_[order.new_set];
  }
  if (request.kind == CollectiveKind::remove_process_set) {
    if (sets_.ranks_of(request.ranks.front()) == nullptr) {
      return error_order(request, Code::unknown_process_set,
                         fmt::format("process set {} does not exist any more", request.ranks.front()));
    }
    sets_.remove(request.ranks.front());
    states_.erase(request.ranks.front());  // their ranks fail what is pending there when they see this order
  }
  if (!moves_data(request.kind)) must_flush_ = true;
  order.request = std::move(request);
  order.contributors = pending.count;
  return order;
}

Order Sequencer::mismatch(const Pending& pending) const {
  const Request& request = pending.variants.front().request;
  const std::string what = difference(request, pending.variants[1].request);
  std::string text =
      fmt::format("Mismatched {} for '{}' in process set {}:", what, request.name, request.process_set);
  for (std::size_t i = 0; i < pending.variants.size(); ++i) {
    text += fmt::format("{} {} submitted {}", i ? ";" : "", who(pending.variants[i].ranks),
                        pending.variants[i].request.describe());
  }
  text += fmt::format(". Every rank of the process set must pass the same {}.", what);
  return error_order(request, Code::mismatch, std::move(text));
}

Order Sequencer::error_order(const Request& request, Code code, std::string text) const {
  Order order;
  order.kind = Order::Kind::error;
  order.request.name = request.name;
  order.request.process_set = request.process_set;
  order.request.kind = request.kind;
  order.error = code;
  order.text = std::move(text);
  return order;
}

std::vector<Rank> Sequencer::missing_ranks(ProcessSetId id, const Pending& pending) const {
  const std::vector<Rank>& ranks = *sets_.ranks_of(id);
  const SetState& set = states_.at(id);
  std::vector<Rank> missing;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!pending.reported[i] && (set.joined_count == 0 || !set.joined[i])) missing.push_back(ranks[i]);
  }
  return missing;
}

bool Sequencer::wait_for_each_other(ProcessSetId a, const Pending& x, ProcessSetId b,
                                    const Pending& y) const {
  // Somebody is in x and is waited for in y, and the other way round.
  const auto held_up = [&](ProcessSetId here, const Pending& in, ProcessSetId there, const Pending& waited) {
    return std::ranges::any_of(missing_ranks(there, waited), [&](Rank rank) {
      const int index = sets_.index_in(here, rank);
      return index >= 0 && in.reported[at(index)];
    });
  };
  return held_up(a, x, b, y) && held_up(b, y, a, x);
}

void Sequencer::suspect_process_sets(ProcessSetId id, const std::string& name, TimePoint now) {
  Pending& pending = states_[id].pending.at(name);
  for (auto& [other, set] : states_) {
    if (other == id) continue;
    const auto found = set.pending.find(name);
    if (found == set.pending.end() || !wait_for_each_other(id, pending, other, found->second)) continue;
    pending.suspect_since = found->second.suspect_since = now;
    next_check_ = std::min(next_check_, now + kProcessSetGrace);
  }
}

void Sequencer::fail_process_set_mismatch(const std::string& name, ProcessSetId a, ProcessSetId b) {
  std::string text = fmt::format("Mismatched process set for '{}':", name);
  for (const ProcessSetId id : {a, b}) {
    for (const Variant& variant : states_[id].pending.at(name).variants) {
      text += fmt::format("{} {} submitted {} in process set {} (ranks {})", text.ends_with(":") ? "" : ";",
                          who(variant.ranks), variant.request.describe(), id,
                          ranks_to_string(*sets_.ranks_of(id)));
    }
  }
  text += ". Every rank must pass the same process set.";
  for (const ProcessSetId id : {a, b}) {
    auto node = states_[id].pending.extract(name);
    ready_.push_back(error_order(node.mapped().variants.front().request, Code::mismatch, text));
  }
  must_flush_ = true;
}

void Sequencer::tick(TimePoint now) {
  if (now < next_check_) return;
  next_check_ = kNever;
  std::vector<std::pair<ProcessSetId, std::string>> suspects;
  for (auto& [id, set] : states_) {
    for (auto& [name, pending] : set.pending) {
      check_stall(id, name, pending, now);
      if (!pending.suspect_since) continue;
      if (now >= *pending.suspect_since + kProcessSetGrace) {
        suspects.emplace_back(id, name);
      } else {
        next_check_ = std::min(next_check_, *pending.suspect_since + kProcessSetGrace);
      }
    }
  }
  for (const auto& [id, name] : suspects) {
    const auto mine = states_[id].pending.find(name);
    if (mine == states_[id].pending.end()) continue;  // failed with its partner
    mine->second.suspect_since.reset();
    for (const auto& [other, other_name] : suspects) {
      if (other == id || other_name != name) continue;
      const auto theirs = states_[other].pending.find(name);
      if (theirs == states_[other].pending.end()) continue;
      if (!wait_for_each_other(id, mine->second, other, theirs->second)) continue;
      fail_process_set_mismatch(name, id, other);
      break;
    }
  }
}

void Sequencer::check_stall(ProcessSetId id, const std::string& name, Pending& pending, TimePoint now) {
  if (options_.stall_check <= Duration::zero()) return;
  if (now >= pending.warned + options_.stall_check) {
    pending.warned = now;
    warnings_.push_back(stall_text(id, name, pending, now));
  }
  next_check_ = std::min(next_check_, pending.warned + options_.stall_check);
  if (options_.stall_shutdown <= Duration::zero()) return;
  if (now >= pending.since + options_.stall_shutdown) {
    if (!failure_) failure_ = FailMessage{Code::stalled, stall_text(id, name, pending, now)};
  } else {
    next_check_ = std::min(next_check_, pending.since + options_.stall_shutdown);
  }
}

std::string Sequencer::stall_text(ProcessSetId id, const std::string& name, const Pending& pending,
                                  TimePoint now) const {
  std::vector<Rank> have;
  for (const Variant& variant : pending.variants)
    have.insert(have.end(), variant.ranks.begin(), variant.ranks.end());
  std::ranges::sort(have);
  const std::vector<Rank> missing = missing_ranks(id, pending);
  std::string text = fmt::format(
      "Stalled for {:.0f} s: '{}' ({}) of process set {} was submitted by {} and is waited for from {}.",
      std::chrono::duration<double>(now - pending.since).count(), name,
      pending.variants.front().request.describe(), id, who(have), who(missing));
  constexpr std::size_t kShown = 8;
  for (std::size_t i = 0; i < std::min(missing.size(), kShown); ++i) text += submitted_instead(missing[i]);
  if (missing.size() > kShown) text += fmt::format(" And {} ranks more.", missing.size() - kShown);
  return text;
}

std::string Sequencer::submitted_instead(Rank rank) const {
  std::vector<std::string> names;
  for (const auto& [id, set] : states_) {
    const int index = sets_.index_in(id, rank);
    if (index < 0) continue;
    for (const auto& [name, pending] : set.pending) {
      if (pending.reported[at(index)]) names.push_back(name);
    }
  }
  if (names.empty()) return fmt::format(" Rank {} has nothing else pending.", rank);
  constexpr std::size_t kShown = 6;
  std::string text = fmt::format(" Rank {} has submitted instead:", rank);
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text += fmt::format("{} '{}'", i ? "," : "", names[i]);
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text + ".";
}

std::string Sequencer::who(const std::vector<Rank>& ranks) const {
  if (ranks.size() != 1) return "ranks " + ranks_to_string(ranks);
  const std::size_t rank = at(ranks.front());
  if (rank >= options_.hosts.size() || options_.hosts[rank].empty()) return fmt::format("rank {}", rank);
  return fmt::format("rank {} on {}", rank, options_.hosts[rank]);
}

bool Sequencer::holds_left_rank(ProcessSetId id) const {
  return std::ranges::any_of(*sets_.ranks_of(id), [&](Rank rank) { return left_[at(rank)]; });
}

TimePoint Sequencer::next_tick() const {
  TimePoint next = next_check_;
  if (!ready_.empty() && options_.linger_limit > Duration::zero()) {
    next = std::min(next, ready_since_ + options_.linger_limit);
  }
  return next;
}

std::vector<Order> Sequencer::take_orders(TimePoint now) {
  if (ready_.empty()) return {};
  const bool limit_over =
      options_.linger_limit > Duration::zero() && now >= ready_since_ + options_.linger_limit;
  if (busy_ && !must_flush_ && !limit_over) return {};
  // Among what is ready at the same time, priority decides; departures and process sets keep their places.
  const auto movable = [](const Order& order) {
    return order.kind == Order::Kind::run && moves_data(order.request.kind);
  };
  for (auto first = ready_.begin(); first != ready_.end();) {
    auto last = first;
    while (last != ready_.end() && movable(*last)) ++last;
    std::stable_sort(first, last,
                     [](const Order& a, const Order& b) { return a.request.priority > b.request.priority; });
    first = last == ready_.end() ? last : std::next(last);
  }
  for (Order& order : ready_) order.number = next_number_++;
  must_flush_ = false;
  return std::exchange(ready_, {});
}

}  // namespace dabke
