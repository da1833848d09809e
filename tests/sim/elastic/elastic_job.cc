#include "tests/sim/elastic/elastic_job.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "tests/sim/elastic/faults.h"
#include "tests/sim/elastic/sim_cluster.h"
#include "tests/sim/pending_tokens.h"

namespace dabke::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// More than any job takes.
constexpr Duration kLongest = std::chrono::minutes(2);

std::vector<Host> hosts_by_chance(ElasticWorld& world) {
  std::vector<Host> hosts;
  const int count = world.chance(0.15) ? 1 : world.pick(2, 5);
  for (int i = 0; i < count; ++i) hosts.push_back({fmt::format("host{}", i), world.pick(1, 4)});
  return hosts;
}

launcher::MembershipLimits limits_by_chance(ElasticWorld& world, const std::vector<Host>& hosts) {
  int slots = 0;
  for (const Host& host : hosts) slots += host.slots;
  launcher::MembershipLimits limits;
  limits.max_np = world.pick((slots + 1) / 2, slots);
  limits.min_np = world.chance(0.7) ? 1 : world.pick(1, std::min(3, limits.max_np));
  limits.first_np = world.pick(limits.min_np, limits.max_np);
  limits.spares = world.chance(0.2) ? 1 : 0;
  limits.wait_limit = milliseconds(world.pick(200, 2000));
  limits.least_cooldown = milliseconds(world.pick(1, 20));
  limits.most_cooldown = 8 * limits.least_cooldown;
  return limits;
}

void fill_by_chance(ElasticWorld& world) {
  world.program = {.steps = world.pick(10, 200),
                   .tensors = world.pick(1, 4),
                   .steps_per_commit = world.chance(0.6) ? 1 : world.pick(2, 4),
                   .think = microseconds(world.pick(0, 200))};
  world.radix = world.pick(0, 3);
  world.jitter = world.pick(0, 10);
  world.peer_timeout = milliseconds(world.pick(2, 10));
  world.start_time = microseconds(world.pick(100, 5000));
  auto& sequencer = world.negotiator.sequencer;
  sequencer.cache_capacity = static_cast<std::size_t>(world.chance(0.2) ? world.pick(0, 3) : 1000);
  sequencer.learned_batch_bytes = world.chance(0.5) ? 0 : 400;
  sequencer.fusion = {.threshold = world.chance(0.2) ? 0 : 1 << 20, .alone = 1U << 20, .mixes_groups = true};
}

/// Everything that still waits, for a message.
std::string waiting(const SimCluster& cluster) {
  std::string text;
  for (const auto& worker : cluster.workers()) {
    if (worker->is_alive()) text += "; " + worker->describe();
  }
  return text;
}

void run_to_its_end(ElasticWorld& world, const SimCluster& cluster) {
  const TimePoint limit = world.now() + kLongest;
  while (!cluster.is_over()) {
    if (world.queue.next_at() == kNever)
      throw Violation("nothing is left to happen, and the job has not ended" + waiting(cluster));
    if (world.queue.next_at() > limit) throw Violation("the job does not come to its end" + waiting(cluster));
    world.queue.run_next();
  }
}

/// Every process has learned how the training ended, or why it is not a part of it any more.
void check_ends(const ElasticWorld& world, const SimCluster& cluster, int faults) {
  const auto& end = *cluster.end();
  if (end.is_failure && faults == 0)
    throw Violation("the job fails though nothing has happened to it: " + end.why);
  if (end.is_failure && end.why.empty()) throw Violation("the job fails without a reason");
  for (const auto& worker : cluster.workers()) {
    if (worker->end_reason().empty())
      throw Violation("a process has not learned why it has ended: " + worker->describe());
  }
  if (end.is_failure) return;
  const auto finished = [&](const auto& worker) {
    return worker->end_reason() == "status 0" && worker->committed().step == world.program.steps;
  };
  if (std::ranges::none_of(cluster.workers(), finished))
    throw Violation("the job has ended well, and no rank has made all of its steps");
}

}  // namespace

ElasticResult& ElasticResult::operator+=(const ElasticResult& other) {
  events += other.events;
  epochs += other.epochs;
  losses += other.losses;
  lost_roots += other.lost_roots;
  refusals += other.refusals;
  leavers += other.leavers;
  newcomers += other.newcomers;
  commits += other.commits;
  ended_well += other.ended_well;
  return *this;
}

ElasticResult run_elastic_job(unsigned seed, Mistake mistake) {
  ElasticWorld world;
  world.random.seed(seed);
  world.mistake = mistake;
  fill_by_chance(world);
  const std::vector<Host> hosts = hosts_by_chance(world);
  const launcher::MembershipLimits limits = limits_by_chance(world, hosts);
  const int faults = world.chance(0.1) ? 0 : world.pick(1, 20);
  ElasticResult result;
  result.text = fmt::format("{} hosts, {} to {} ranks, {} steps, {} faults", hosts.size(), limits.min_np,
                            limits.max_np, world.program.steps, faults);
  SimCluster cluster(world, limits);
  const Duration expected = world.program.steps * microseconds(world.pick(200, 800));
  const Faults schedule(world, cluster, hosts, faults, expected / (faults + 1));
  cluster.use(hosts);
  try {
    run_to_its_end(world, cluster);
    check_ends(world, cluster, faults);
  } catch (const Violation& violation) {
    throw Violation(fmt::format("{}: {}", result.text, violation.what()));
  }
  result.text += cluster.end()->is_failure ? ": failed: " + cluster.end()->why : ": ended well";
  result.events = world.queue.events();
  result.epochs = cluster.epochs();
  result.losses = cluster.losses();
  result.lost_roots = cluster.lost_roots();
  result.refusals = cluster.refusals();
  result.leavers = cluster.leavers();
  result.newcomers = cluster.newcomers();
  result.commits = world.invariants.commits();
  result.ended_well = cluster.end()->is_failure ? 0 : 1;
  return result;
}

}  // namespace dabke::test
