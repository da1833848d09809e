#include "tests/sim/elastic/faults.h"

#include <algorithm>
#include <utility>

namespace dabke::test {

Faults::Faults(ElasticWorld& world, SimCluster& cluster, std::vector<Host> hosts, int count, Duration pause)
    : world_(world), cluster_(cluster), hosts_(std::move(hosts)), left_(count), pause_(pause) {
  cluster_.on_phase([this](SimWorker& worker) { strike_in(worker); });
  if (count > 0) next();
}

void Faults::next() {
  world_.queue.after(world_.moment(2 * pause_), [this] {
    if (left_ <= 0) return cluster_.use(hosts_);
    --left_;
    strike();
    next();
  });
}

WorkerId Faults::any(const std::vector<WorkerId>& of) {
  return of[static_cast<std::size_t>(world_.pick(0, static_cast<int>(of.size()) - 1))];
}

void Faults::strike() {
  std::vector<WorkerId> members = cluster_.members();
  const std::string host = members.empty() ? "" : cluster_.worker(any(members)).slot().host;
  std::erase_if(members, [&](WorkerId id) { return cluster_.is_paused(cluster_.worker(id).slot().host); });
  const auto size = static_cast<int>(members.size());
  // Usually somebody is left, so that the job goes on.
  if (size == 0 || (size == 1 && world_.chance(0.9))) return cluster_.use(hosts_);
  const Duration time = world_.moment(3 * world_.peer_timeout);
  switch (world_.pick(0, 11)) {
    case 0:
    case 1: return cluster_.kill(any(members));
    case 2:
    case 3: return cluster_.kill(members.front());
    case 4: {
      const int count = world_.pick(1, std::max(1, size - 1));
      for (int i = 0; i < count; ++i) cluster_.kill(any(members));
      return;
    }
    case 5: return cluster_.stop(any(members), time);
    case 6: return cluster_.stop(members.front(), time);
    case 7: return is_last(host) ? change_hosts() : cluster_.lose_host(host);
    case 8:
    case 9: return is_last(host) ? change_hosts() : cluster_.pause_host(host, time);
    default: return change_hosts();
  }
}

/// True if the host should be left alone: without it, no member would be left. Some jobs lose it anyway.
bool Faults::is_last(const std::string& host) {
  const std::vector<WorkerId> members = cluster_.members();
  const bool holds_all =
      std::ranges::all_of(members, [&](WorkerId id) { return cluster_.worker(id).slot().host == host; });
  return (holds_all && world_.chance(0.9)) || cluster_.is_paused(host);
}

void Faults::change_hosts() {
  std::vector<Host> listed;
  for (const Host& host : hosts_) {
    if (world_.chance(0.7)) listed.push_back({host.name, world_.pick(1, host.slots)});
  }
  if (world_.chance(0.3)) std::ranges::shuffle(listed, world_.random);
  cluster_.use(std::move(listed));
}

/// Kills the process, and perhaps another one, at a moment of the change from an epoch to the next.
void Faults::strike_in(SimWorker& worker) {
  using Phase = SimWorker::Phase;
  if (left_ <= 0 || worker.phase() == Phase::starting || worker.phase() == Phase::training) return;
  if (!world_.chance(0.01)) return;
  --left_;
  world_.queue.after(world_.moment(world_.hop * 8), [this, id = worker.process().worker] {
    if (cluster_.is_paused(cluster_.worker(id).slot().host)) return;
    const std::vector<WorkerId> members = cluster_.members();
    if (members.size() > 1 || world_.chance(0.1)) cluster_.kill(id);
    if (members.size() > 3 && world_.chance(0.3)) cluster_.kill(any(members));
  });
}

}  // namespace dabke::test
