#include "ops/hierarchical/host_leaders.h"

#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/store/init_failure.h"

namespace dabke::ops {

Result<std::vector<Rank>> gather_leaders(const BackendContext& context, Rank own) {
  const TimePoint deadline = deadline_after(context.config.start_timeout);
  const World& world = context.world;
  store::Store& store = *context.store;
  const auto key_of = [](Rank rank) { return fmt::format("hierarchical/leader/{}", rank); };
  constexpr const char* kAll = "hierarchical/leaders";
  // Names the ranks that have not reported yet. If all have reported, the root is the absent one.
  const auto explain = [&]() -> Status {
    std::vector<Rank> absent;
    for (Rank rank = 0; rank < world.size; ++rank) {
      if (!store.get(key_of(rank), Clock::now()).is_ok()) absent.push_back(rank);
    }
    if (absent.empty()) absent.push_back(0);
    const store::AbsentRanks described = store::describe_absent(store, world, absent);
    return {
        Code::timeout,
        fmt::format("rank {} waited {} s in dabke_init for {} to report the ranks that share its memory{}; "
                    "check that these ranks run and read their errors, or raise DABKE_START_TIMEOUT_SECONDS",
                    world.rank, context.config.start_timeout, described.who, described.reported)};
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
                fmt::format("rank 0 listed {} leaders of hosts for {} ranks", leaders.size(), world.size));
}

}  // namespace dabke::ops
