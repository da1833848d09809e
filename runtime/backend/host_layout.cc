#include "runtime/backend/host_layout.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

namespace dabke {

std::vector<Rank> leaders_by_name(std::span<const std::string> hosts) {
  std::map<std::string_view, Rank> first;
  std::vector<Rank> leaders;
  for (const std::string& host : hosts)
    leaders.push_back(first.try_emplace(host, static_cast<Rank>(leaders.size())).first->second);
  return leaders;
}

bool spans_hosts(const ProcessSetInfo& set, std::span<const std::string> hosts) {
  const auto host = [&](Rank rank) -> const std::string& { return hosts[static_cast<std::size_t>(rank)]; };
  return std::ranges::any_of(set.ranks, [&](Rank rank) { return host(rank) != host(set.ranks.front()); });
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
  ProcessSetInfo inside{inside_hosts(set.id), {}, static_cast<int>(layout.own_index)};
  for (const int place : layout.hosts[layout.own_host])
    inside.ranks.push_back(set.ranks[static_cast<std::size_t>(place)]);
  return inside;
}

ProcessSetInfo ranks_between(const ProcessSetInfo& set, const HostLayout& layout) {
  ProcessSetInfo between{between_hosts(set.id), {}, 0};
  for (std::size_t host = 0; host < layout.hosts.size(); ++host) {
    const std::vector<int>& places = layout.hosts[host];
    if (places.size() <= layout.own_index) continue;
    if (host == layout.own_host) between.rank = between.size();
    between.ranks.push_back(set.ranks[static_cast<std::size_t>(places[layout.own_index])]);
  }
  return between;
}

HostedSet hosted(const ProcessSetInfo& set, std::span<const Rank> leaders) {
  HostLayout layout = layout_of(set, leaders);
  ProcessSetInfo inside = ranks_inside(set, layout);
  ProcessSetInfo between = ranks_between(set, layout);
  return {std::move(layout), std::move(inside), std::move(between)};
}

}  // namespace dabke
