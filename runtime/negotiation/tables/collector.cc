#include "runtime/negotiation/tables/collector.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/pair_sets.h"
#include "runtime/base/text/message_name.h"

namespace dabke::negotiation {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// True if joined ranks may make the request an error, whose text names them.
bool names_joined(CollectiveKind kind) { return moves_data(kind) && kind != CollectiveKind::allreduce; }

}  // namespace

Collector::Collector(std::shared_ptr<const Topology> topology, Rank self)
    : topology_(std::move(topology)), self_(self), children_(topology_->children(self)) {
  Set& world = world_;
  world.ranks_behind.assign(at(reporters()), 1);
  for (int i = 1; i < reporters(); ++i) world.ranks_behind[at(i)] = topology_->subtree_size(rank_of(i));
  world.expected = reporters();
  world.joined.resize(at(reporters()));
}

int Collector::reporter_of(Rank rank) const {
  if (rank == self_) return 0;
  Rank before = rank;
  for (Rank up = topology_->parent(rank); up >= 0; before = std::exchange(up, topology_->parent(up))) {
    if (up != self_) continue;
    return 1 + static_cast<int>(std::ranges::lower_bound(children_, before) - children_.begin());
  }
  return -1;
}

void Collector::add_set(ProcessSetId id, const std::vector<Rank>& ranks) { sets_[id] = set_of(ranks); }

Collector::Set Collector::set_of(const std::vector<Rank>& ranks) const {
  Set set;
  set.ranks_behind.resize(at(reporters()));
  set.joined.resize(at(reporters()));
  set.ranks = std::make_shared<const std::vector<Rank>>(ranks);
  for (const Rank rank : ranks) {
    const int reporter = reporter_of(rank);
    if (reporter >= 0 && set.ranks_behind[at(reporter)]++ == 0) ++set.expected;
  }
  return set;
}

std::optional<Collector::Set> Collector::own_set_of(const Request& request) const {
  if (!is_among_members(request.kind)) return std::nullopt;
  Set set = set_of(request.ranks);
  set.open = is_open(request.process_set);
  return set;
}

/// A request that is reported by slot is never of that kind.
std::optional<Collector::Set> Collector::own_set_of(const TensorEntry& entry) const {
  const auto& candidates = entry.collection.candidates;
  return candidates.empty() ? std::nullopt : own_set_of(*candidates.front().request);
}

const Collector::Set* Collector::find(ProcessSetId id) const {
  if (id == kWorldSet) return &world_;
  const auto found = sets_.find(id);
  return found == sets_.end() ? nullptr : &found->second;
}

void Collector::end_set(ProcessSetId id) {
  if (const auto found = sets_.find(id); found != sets_.end()) found->second.open = false;
}

bool Collector::is_open(ProcessSetId id) const {
  const Set* set = find(id);
  return set != nullptr && set->open;
}

bool Collector::concerns(ProcessSetId id, int reporter) const {
  const Set* set = find(id);
  return set != nullptr && set->ranks_behind[at(reporter)] > 0;
}

int Collector::ranks_behind(ProcessSetId id, int reporter) const {
  const Set* set = find(id);
  return set == nullptr ? 0 : set->ranks_behind[at(reporter)];
}

Collector::Took Collector::note(TensorEntry& entry, int reporter, std::int32_t contributors, TimePoint now) {
  Collection& collection = entry.collection;
  if (collection.empty()) {
    collection.reported.clear();
    collection.since = collection.warned = now;
    collection.contributors = 0;
    collection.suspect_at = now + kSuspectAfter;
    collection.root_absent = false;
    collection.joined.clear();
  }
  if (collection.reported.contains(reporter)) return Took::twice;
  collection.reported.insert(reporter);
  ++collection.count;
  collection.contributors += contributors;
  return Took::yes;
}

Collector::Took Collector::report(TensorEntry& entry, int reporter, TimePoint now) {
  const Set* set = find(entry.process_set);
  if (set == nullptr || !set->open || set->ranks_behind[at(reporter)] == 0 || is_of_removed_set(entry))
    return Took::no;
  const Took took = note(entry, reporter, set->ranks_behind[at(reporter)], now);
  if (took == Took::yes && !entry.collection.candidates.empty())
    add_candidate(entry, reporter, entry.agreed, {});
  return took;
}

Collector::Took Collector::report(TensorEntry& entry, int reporter, const wire::Report& report,
                                  TimePoint now) {
  const auto own = own_set_of(*report.variants.front().request);
  const Set* set = own ? &*own : find(entry.process_set);
  if (set == nullptr || !set->open || set->ranks_behind[at(reporter)] == 0 || is_of_removed_set(entry))
    return Took::no;
  spell_out(entry);
  if (const Took took = note(entry, reporter, report.contributors, now); took != Took::yes) return took;
  entry.collection.root_absent = entry.collection.root_absent || report.root_absent;
  auto& joined = entry.collection.joined;
  joined.insert(joined.end(), report.joined.begin(), report.joined.end());
  for (const wire::RequestVariant& variant : report.variants)
    add_candidate(entry, reporter, variant.request, variant.ranks);
  return Took::yes;
}

bool Collector::is_of_removed_set(const TensorEntry& entry) const {
  return is_pair(entry.process_set) && find(set_of_message(entry.name)) == nullptr;
}

void Collector::spell_out(TensorEntry& entry) {
  Collection& collection = entry.collection;
  if (collection.empty() || !collection.candidates.empty()) return;
  for (int reporter = 0; reporter < reporters(); ++reporter) {
    if (collection.reported.contains(reporter)) add_candidate(entry, reporter, entry.agreed, {});
  }
}

void Collector::add_candidate(TensorEntry& entry, int reporter, const RequestRef& request,
                              const std::vector<Rank>& ranks) {
  auto& candidates = entry.collection.candidates;
  const auto same = std::ranges::find_if(candidates, [&](const Collection::Candidate& candidate) {
    return candidate.request == request || agree(*candidate.request, *request);
  });
  if (same != candidates.end()) {
    same->parts.push_back({reporter, ranks});
  } else {
    candidates.push_back({request, {{reporter, ranks}}});
  }
}

bool Collector::is_complete(const TensorEntry& entry) const {
  const auto own = own_set_of(entry);
  const Set* set = own ? &*own : find(entry.process_set);
  const Collection& collection = entry.collection;
  if (set == nullptr || collection.empty()) return false;
  if (collection.count == set->expected) return true;
  if (set->joined_count == 0) return false;
  for (int reporter = 0; reporter < reporters(); ++reporter) {
    if (!collection.reported.contains(reporter) && !does_without(*set, entry, reporter)) return false;
  }
  return true;
}

bool Collector::does_without(const Set& set, const TensorEntry& entry, int reporter) {
  const std::size_t i = at(reporter);
  if (set.ranks_behind[i] == 0) return true;
  if (!set.joined[i]) return false;
  const auto unfinished = set.unfinished.find(entry.name);
  return unfinished == set.unfinished.end() || !unfinished->second.contains(reporter);
}

std::vector<Rank> Collector::list_ranks_behind(const Set& set, int reporter) const {
  if (reporter == 0) return {self_};
  std::vector<Rank> subtree = topology_->subtree(rank_of(reporter));
  if (!set.ranks) return subtree;
  std::vector<Rank> both;
  std::ranges::set_intersection(subtree, *set.ranks, std::back_inserter(both));
  return both;
}

wire::Report Collector::full_report(const Set& set, const TensorEntry& entry) const {
  const Collection& collection = entry.collection;
  wire::Report report;
  report.contributors = collection.contributors;
  report.root_absent = collection.root_absent;
  const bool mismatch = collection.candidates.size() > 1;
  for (const Collection::Candidate& candidate : collection.candidates) {
    wire::RequestVariant& variant = report.variants.emplace_back(wire::RequestVariant{candidate.request, {}});
    if (!mismatch) continue;
    for (const Collection::Part& part : candidate.parts) {
      const std::vector<Rank> ranks = part.ranks.empty() ? list_ranks_behind(set, part.reporter) : part.ranks;
      variant.ranks.insert(variant.ranks.end(), ranks.begin(), ranks.end());
    }
    std::ranges::sort(variant.ranks);
  }
  const Request& first = *report.variants.front().request;
  if (names_joined(first.kind)) report.joined = joined_beside(set, collection);
  if (first.kind == CollectiveKind::broadcast) {
    const int reporter = reporter_of(first.root);
    if (reporter >= 0 && !collection.reported.contains(reporter)) report.root_absent = true;
  }
  return report;
}

std::vector<Rank> Collector::joined_beside(const Set& set, const Collection& collection) const {
  std::vector<Rank> joined = collection.joined;
  for (int reporter = 0; reporter < reporters() && set.joined_count > 0; ++reporter) {
    if (set.ranks_behind[at(reporter)] == 0 || collection.reported.contains(reporter)) continue;
    const std::vector<Rank> behind = list_ranks_behind(set, reporter);
    joined.insert(joined.end(), behind.begin(), behind.end());
  }
  std::ranges::sort(joined);
  return joined;
}

/// If all ranks of the set contribute, no rank takes part without data. A rank submits nothing for a device
/// type that it lacks. So a joined rank without the device is never among the contributors.
std::optional<Rank> Collector::not_served_in(const Set& set, const wire::Report& report) const {
  const Request& first = *report.variants.front().request;
  const int ranks = std::accumulate(set.ranks_behind.begin(), set.ranks_behind.end(), 0);
  if (!moves_data(first.kind) || report.contributors >= ranks) return std::nullopt;
  return set.not_served[first.device_type];
}

Collector::Taken Collector::take(TensorEntry& entry) {
  const auto own = own_set_of(entry);
  const Set& set = own ? *own : *find(entry.process_set);
  Collection& collection = entry.collection;
  Taken taken;
  taken.by_slot = collection.candidates.empty() && collection.count == set.expected;
  if (!taken.by_slot) {
    spell_out(entry);
    taken.report = full_report(set, entry);
    taken.not_served = not_served_in(set, taken.report);
  }
  collection.count = 0;
  collection.candidates.clear();
  return taken;
}

bool Collector::join(ProcessSetId id, int reporter, const std::vector<std::string>& unfinished) {
  Set& set = sets_.at(id);
  for (auto& [name, reporters] : set.unfinished) reporters.erase(reporter);
  std::erase_if(set.unfinished, [](const auto& entry) { return entry.second.empty(); });
  for (const std::string& name : unfinished) set.unfinished[name].insert(reporter);
  if (set.joined[at(reporter)]) return false;
  set.joined[at(reporter)] = true;
  ++set.joined_count;
  return true;
}

std::vector<std::string> Collector::unfinished(ProcessSetId id) const {
  std::vector<std::string> names;
  if (const Set* set = find(id)) {
    for (const auto& [name, reporters] : set->unfinished) names.push_back(name);
  }
  return names;
}

void Collector::note_not_served(ProcessSetId id, const std::vector<wire::NotServed>& ranks) {
  const auto found = sets_.find(id);
  if (found == sets_.end()) return;
  for (const wire::NotServed& one : ranks) {
    std::optional<Rank>& known = found->second.not_served[one.type];
    known = std::min(known.value_or(one.rank), one.rank);
  }
}

std::vector<wire::NotServed> Collector::not_served(ProcessSetId id) const {
  std::vector<wire::NotServed> all;
  const Set* set = find(id);
  if (set == nullptr) return all;
  for (const DeviceType type : kDeviceTypes) {
    if (set->not_served[type]) all.push_back({type, *set->not_served[type]});
  }
  return all;
}

bool Collector::all_joined(ProcessSetId id) const {
  const Set* set = find(id);
  return set != nullptr && set->joined_count == set->expected;
}

void Collector::forget_joins(ProcessSetId id) {
  const auto found = sets_.find(id);
  if (found == sets_.end()) return;
  found->second.joined.assign(at(reporters()), false);
  found->second.joined_count = 0;
  found->second.unfinished.clear();
  found->second.not_served = {};
}

bool Collector::has_joined(ProcessSetId id, int reporter) const {
  const Set* set = find(id);
  return set != nullptr && set->joined[at(reporter)];
}

std::vector<int> Collector::missing(const TensorEntry& entry) const {
  std::vector<int> out;
  const auto own = own_set_of(entry);
  const Set* set = own ? &*own : find(entry.process_set);
  if (set == nullptr || entry.collection.empty()) return out;
  for (int reporter = 0; reporter < reporters(); ++reporter) {
    if (!entry.collection.reported.contains(reporter) && !does_without(*set, entry, reporter))
      out.push_back(reporter);
  }
  return out;
}

}  // namespace dabke::negotiation
