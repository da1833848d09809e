#include "ops/hierarchical/host_layout.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/transport/init_failure.h"

namespace dabke {

Result<std::vector<Rank>> gather_leaders(const BackendContext& context, Rank own) {
  const TimePoint deadline = deadline_after(context.config.start_timeout);
  const World& world = context.world;
  Store& store = *context.store;
  const auto key_of = [](Rank rank) { return fmt::format("hierarchical/leader/{}", rank); };
  constexpr const char* kAll = "hierarchical/leaders";
  // Names the ranks that have not come so far; where all have, it is the root that went after that.
  const auto explain = [&]() -> Status {
    std::vector<Rank> absent;
    for (Rank rank = 0; rank < world.size; ++rank) {
      if (!store.get(key_of(rank), Clock::now()).is_ok()) absent.push_back(rank);
    }
    if (absent.empty()) absent.push_back(0);
    const AbsentRanks told = describe_absent(store, world, absent);
    return {Code::timeout,
            fmt::format(
                "rank {} waited {} s in dabke_init for {} to say whom it shares memory with{}; see whether "
                "these ranks run and what they say, or wait longer with DABKE_START_TIMEOUT_SECONDS",
                world.rank, context.config.start_timeout, told.who, told.reported)};
  };
  DABKE_RETURN_IF_ERROR(store.set(key_of(world.rank), std::to_string(own)));
  if (world.rank == 0) {
    std::vector<std::string> all;
    for (Rank rank = 0; rank < world.size; ++rank) {
      auto leader = store.get(key_of(rank), deadline);
      if (!leader.is_ok()) return leader.status().code() == Code::timeout ? explain() : leader.status();
      all.push_back(leader.take());
    }
    DABKE_RETURN_IF_ERROR(store.set(kAll, fmt::format("{}", fmt::join(all, " "))));
  }
  const auto gathered = store.get(kAll, deadline);
  if (!gathered.is_ok()) return gathered.status().code() == Code::timeout ? explain() : gathered.status();
  std::istringstream words(*gathered);
  std::vector<Rank> leaders;
  for (Rank leader = 0; words >> leader;) leaders.push_back(leader);
  if (static_cast<int>(leaders.size()) == world.size) return leaders;
  return Status(Code::mismatch,
                fmt::format("rank 0 left {} leaders of hosts for {} ranks", leaders.size(), world.size));
}

std::pair<std::size_t, std::size_t> HostLayout::find(int place) const {
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    const auto found = std::ranges::find(hosts[host], place);
    if (found != hosts[host].end()) return {host, static_cast<std::size_t>(found - hosts[host].begin())};
  }
  return {};
}

HostLayout layout_of(const ProcessSetInfo& set, std::span<const Rank> leaders) {
  HostLayout layout;
  std::vector<Rank> seen;
  for (int place = 0; place < set.size(); ++place) {
    const Rank leader = leaders[static_cast<std::size_t>(set.ranks[static_cast<std::size_t>(place)])];
    const auto found = std::ranges::find(seen, leader);
    if (found == seen.end()) {
      seen.push_back(leader);
      layout.hosts.push_back({place});
    } else {
      layout.hosts[static_cast<std::size_t>(found - seen.begin())].push_back(place);
    }
  }
  std::tie(layout.own_host, layout.own_index) = layout.find(set.rank);
  const auto [least, most] = std::ranges::minmax(layout.hosts, {}, &std::vector<int>::size);
  layout.least_size = least.size();
  layout.most_size = most.size();
  layout.is_regular = layout.least_size == layout.most_size &&
                      std::ranges::all_of(layout.hosts, [](const std::vector<int>& places) {
                        return places.back() - places.front() + 1 == static_cast<int>(places.size());
                      });
  return layout;
}

ProcessSetInfo ranks_inside(const ProcessSetInfo& set, const HostLayout& layout) {
  ProcessSetInfo inside{-2 * set.id - 2, {}, static_cast<int>(layout.own_index)};
  for (const int place : layout.hosts[layout.own_host])
    inside.ranks.push_back(set.ranks[static_cast<std::size_t>(place)]);
  return inside;
}

ProcessSetInfo ranks_between(const ProcessSetInfo& set, const HostLayout& layout) {
  ProcessSetInfo between{-2 * set.id - 1, {}, 0};
  for (std::size_t host = 0; host < layout.hosts.size(); ++host) {
    const std::vector<int>& places = layout.hosts[host];
    if (places.size() <= layout.own_index) continue;
    if (host == layout.own_host) between.rank = between.size();
    between.ranks.push_back(set.ranks[static_cast<std::size_t>(places[layout.own_index])]);
  }
  return between;
}

}  // namespace dabke
