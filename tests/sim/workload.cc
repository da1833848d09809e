#include "tests/sim/workload.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "runtime/base/pair_sets.h"
#include "runtime/base/text/message_name.h"

namespace dabke::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr int kWorld = -1;  // instead of the index of a set

struct Op {
  Request request;
  int set = kWorld;  // index into the job's sets
  bool mismatch = false;
  bool is_unserved = false;  // a rank that has joined lacks such a device
  Rank odd = -1;             // mismatch: the rank that submits something else
  int adds = -1;             // the set it adds
  int removes = -1;          // the set it removes
  int contributors = 0;      // 0: all of the set
  Rank from = -1, to = -1;   // of a message

  bool is_message() const { return from >= 0; }
};

struct Step {
  std::vector<Op> ops;
};

struct JobSet {
  std::vector<Rank> ranks;
  std::optional<ProcessSetId> id;
  bool is_among_members = false;  // its members add and remove it, without the other ranks
  int holds = 1;                  // the number of times that they have added it
};

struct Job {
  std::vector<JobSet> sets;
  std::vector<Step> steps;
  std::vector<int> rounds;  // rounds of the last phase before the join, by rank
  Rank without_devices = -1;
  bool keeps_order = false;
  bool divides_by_all = false;  // even if some ranks have joined
  double blocking = 0;          // how often a rank waits for one operation before it submits the next
  Duration think{};
  Rank slow = -1;
};

class Generator {
 public:
  Generator(std::mt19937& random, int ranks) : random_(random), ranks_(ranks) {}

  Job job() {
    Job job;
    job.keeps_order = chance(0.5);
    job.blocking = chance(0.5) ? 0 : pick(0, 30) / 100.0;
    job.think = microseconds(pick(0, 200));
    if (chance(0.3)) job.slow = pick(0, ranks_ - 1);
    const bool repeats = chance(0.6);
    const int names = pick(1, ranks_ > 64 ? 8 : 40);
    const int steps = repeats ? pick(8, 14) : pick(3, 8);
    const Step same = step(job, names, repeats);
    for (int i = 0; i < steps; ++i) {
      Step next = repeats && !chance(0.1) ? same : step(job, names, false);
      sets(job, i, next);
      job.steps.push_back(std::move(next));
    }
    for (Rank rank = 0; rank < ranks_; ++rank) job.rounds.push_back(pick(0, 3));
    if (chance(0.3)) job.without_devices = pick(0, ranks_ - 1);
    return job;
  }

  Op random_op(const std::string& name, int shape) {
    Op op;
    op.request.name = name;
    const int kind = pick(0, 19);
    op.request.kind = kind < 13   ? CollectiveKind::allreduce
                      : kind < 15 ? CollectiveKind::allgather
                      : kind < 16 ? CollectiveKind::broadcast
                      : kind < 17 ? CollectiveKind::reducescatter
                      : kind < 18 ? CollectiveKind::alltoall
                                  : CollectiveKind::barrier;
    if (op.request.kind == CollectiveKind::barrier) return op;
    if (chance(0.3)) op.request.device_type = DeviceType::cuda;
    const int tensors = op.request.kind == CollectiveKind::allreduce && chance(0.1) ? pick(2, 4) : 1;
    for (int i = 0; i < tensors; ++i) {
      op.request.tensors.push_back({tensors == 1 ? name : fmt::format("{}.{}", name, i),
                                    chance(0.1) ? DType::f64 : DType::f32, Shape{shape, 3}});
    }
    return op;
  }

 private:
  bool chance(double of) { return std::uniform_real_distribution<double>(0, 1)(random_) < of; }
  int pick(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }

  Step step(const Job& job, int names, bool plain) {
    Step step;
    std::vector<int> alive;
    for (std::size_t i = 0; i < job.sets.size(); ++i) {
      if (!removed_.contains(static_cast<int>(i))) alive.push_back(static_cast<int>(i));
    }
    for (int i = 0; i < names; ++i) {
      const int shape = plain || chance(0.8) ? 1 + i : pick(1, 50);  // sometimes another shape
      Op op = plain ? Op{} : random_op(fmt::format("t{}", i), shape);
      if (plain) {
        if (i % 3 == 1) op.request.device_type = DeviceType::cuda;
        op.request.name = fmt::format("t{}", i);
        op.request.tensors = {{op.request.name, DType::f32, Shape{1 + i, 3}}};
      }
      if (!plain && !alive.empty() && chance(0.4)) {
        op.set = alive[static_cast<std::size_t>(pick(0, static_cast<int>(alive.size()) - 1))];
        op.request.name += fmt::format(" of set {}", op.set);
        for (TensorSpec& tensor : op.request.tensors) tensor.name += fmt::format(" of set {}", op.set);
      }
      if (op.request.kind == CollectiveKind::broadcast && op.set != kWorld) {
        op.request.root = job.sets[static_cast<std::size_t>(op.set)].ranks.front();
      }
      if (!plain && op.request.kind == CollectiveKind::allreduce && op.set == kWorld && ranks_ > 1 &&
          chance(0.05)) {
        op.mismatch = true;
        op.odd = pick(0, ranks_ - 1);
      }
      if (chance(0.1)) op.request.priority = pick(-2, 2);
      step.ops.push_back(op);
      if (!op.mismatch && chance(0.05)) step.ops.push_back(op);  // the same name twice: the second one queues
      if (chance(0.15)) message(job, op.set, shape, step);
    }
    return step;
  }

  /// Adds a message between two members of the set, if it has two.
  void message(const Job& job, int set, int shape, Step& step) {
    std::vector<Rank> ranks(static_cast<std::size_t>(ranks_));
    std::iota(ranks.begin(), ranks.end(), 0);
    if (set != kWorld) ranks = job.sets[static_cast<std::size_t>(set)].ranks;
    if (ranks.size() < 2) return;
    std::ranges::shuffle(ranks, random_);
    Op op;
    op.set = set;
    op.from = ranks[0];
    op.to = ranks[1];
    op.request.kind = CollectiveKind::send_recv;
    op.request.name = fmt::format("m{}", shape);  // equal names have equal shapes, in whatever order
    op.request.tensors = {{op.request.name, DType::f32, Shape{shape}}};
    const int times = chance(0.2) ? 2 : 1;
    for (int i = 0; i < times; ++i) step.ops.push_back(op);
  }

  void sets(Job& job, int step_index, Step& step) {
    if (chance(0.3) && ranks_ > 1) {
      std::vector<Rank> ranks;
      for (Rank rank = 0; rank < ranks_; ++rank) {
        if (chance(0.5)) ranks.push_back(rank);
      }
      const auto same = [&](const JobSet& set) { return set.ranks == ranks; };
      if (!ranks.empty() && std::ranges::none_of(job.sets, same) && static_cast<int>(ranks.size()) < ranks_) {
        const bool among_members = chance(0.5);
        const int set = static_cast<int>(job.sets.size());
        job.sets.push_back({ranks, std::nullopt, among_members});
        added_[set] = step_index;
        step.ops.push_back(change(job, set, true));
      }
    }
    for (std::size_t i = 0; i < job.sets.size(); ++i) {
      const int set = static_cast<int>(i);
      const bool used = std::ranges::any_of(step.ops, [&](const Op& op) { return op.set == set; });
      if (removed_.contains(set) || added_[set] >= step_index) continue;
      if (job.sets[i].is_among_members && chance(0.15)) {
        ++job.sets[i].holds;
        added_[set] = step_index;
        step.ops.push_back(change(job, set, true));
      } else if (!used && chance(0.2)) {
        if (--job.sets[i].holds == 0) removed_.insert(set);
        added_[set] = step_index;
        step.ops.push_back(change(job, set, false));
        return;
      }
    }
  }

  static Op change(const Job& job, int set, bool adds) {
    const JobSet& changed = job.sets[static_cast<std::size_t>(set)];
    Op op;
    if (changed.is_among_members) {
      op.request.kind =
          adds ? CollectiveKind::add_set_among_members : CollectiveKind::remove_set_among_members;
    } else {
      op.request.kind = adds ? CollectiveKind::add_process_set : CollectiveKind::remove_process_set;
    }
    op.request.name = name_of(op.request.kind);
    if (adds || changed.is_among_members) op.request.ranks = changed.ranks;
    (adds ? op.adds : op.removes) = set;
    return op;
  }

  std::mt19937& random_;
  int ranks_;
  std::map<int, int> added_;
  std::set<int> removed_;
};

/// The program of one rank, one step after the other.
class Program {
 public:
  Program(Sim& sim, Job& job, Rank rank) : sim_(sim), job_(job), rank_(rank) {}

  void start() { next_step(); }
  bool finished() const { return finished_; }
  bool failed() const { return failed_; }

 private:
  std::vector<Op> ops_of(std::size_t step) const {
    std::vector<Op> mine;
    if (step < job_.steps.size()) {
      for (const Op& op : job_.steps[step].ops) {
        const int set = is_among_members(op.request.kind) ? std::max(op.adds, op.removes) : op.set;
        if (op.is_message()) {
          if (rank_ == op.from || rank_ == op.to) mine.push_back(op);
        } else if (set == kWorld || std::ranges::count(job_.sets[index(set)].ranks, rank_) > 0)
          mine.push_back(op);
      }
    }
    return mine;
  }

  void next_step() {
    if (step_ == job_.steps.size()) return next_round();
    todo_ = ops_of(step_++);
    // Equal names keep their order. So do process sets of the world, which have one name.
    if (!job_.keeps_order) {
      std::ranges::shuffle(todo_, sim_.random());
      std::ranges::stable_sort(todo_, {},
                               [](const Op& op) { return is_among_members(op.request.kind) ? -1 : op.adds; });
    }
    submit_next();
  }

  /// The last phase: uneven rounds, then join.
  void next_round() {
    todo_.clear();
    if (round_ < job_.rounds[index(rank_)]) {
      for (int i = 0; i < 3; ++i) {
        Op op;
        op.request.name = fmt::format("t{}", i);
        op.request.tensors = {{op.request.name, DType::f32, Shape{1 + i, 3}}};
        if (i == 1) {
          op.request.device_type = DeviceType::cuda;
          const Rank without = job_.without_devices;
          op.is_unserved = without >= 0 && job_.rounds[index(without)] <= round_;
        }
        op.contributors =
            static_cast<int>(std::ranges::count_if(job_.rounds, [&](int n) { return n > round_; }));
        todo_.push_back(op);
        if (round_ % 2 == 1) todo_.push_back(op);  // the second one queues, and the join must not overtake it
      }
      ++round_;
    } else if (!joined_) {
      joined_ = true;
      Op op;
      op.request.kind = CollectiveKind::join;
      op.request.name = "join";
      todo_.push_back(op);
    } else if (!last_) {
      last_ = true;
      Op op;
      op.request.name = "after";
      op.request.tensors = {{op.request.name, DType::f32, Shape{7}}};
      todo_.push_back(op);
    } else {
      finished_ = true;
      return;
    }
    submit_next();
  }

  void submit_next() {
    if (sim_.is_dead(rank_) || failed_) return;
    if (todo_.empty()) {
      if (waiting_ == 0) return round_ > 0 || step_ == job_.steps.size() ? next_round() : next_step();
      all_submitted_ = true;
      for (const auto& [set, name] : submitted_) sim_.want(rank_, set, name);
      return;
    }
    all_submitted_ = false;
    const Op op = todo_.front();
    todo_.erase(todo_.begin());
    const bool blocks = std::uniform_real_distribution<double>(0, 1)(sim_.random()) < job_.blocking &&
                        job_.keeps_order;  // ranks with different orders would deadlock
    submit(op, blocks);
    if (!blocks) sim_.after(think(), [this] { submit_next(); });
  }

  Duration think() {
    const int times = rank_ == job_.slow ? 20 : 1;
    return std::uniform_int_distribution<int>(0, 4)(sim_.random()) * times * job_.think / 4;
  }

  void submit(const Op& op, bool blocks) {
    Request request = op.request;
    if (op.set != kWorld) request.process_set = *job_.sets[index(op.set)].id;
    if (op.is_message()) {
      request.name = message_name(request.name, op.from, op.to, 0, request.process_set);
      request.tensors[0].name = request.name;
      request.root = op.from;
      request.process_set = pair_of(op.from, op.to);
    }
    if (op.removes >= 0 && !is_among_members(request.kind))
      request.ranks = {*job_.sets[index(op.removes)].id};
    if (op.mismatch && op.odd == rank_) request.tensors[0].shape = Shape{999};
    const bool rows_differ =
        request.kind == CollectiveKind::allgather || request.kind == CollectiveKind::alltoall;
    if (rows_differ) request.tensors[0].shape.set(0, request.tensors[0].shape.dims()[0] + rank_ % 3);
    ++waiting_;
    const std::pair key(request.process_set, request.name);
    submitted_.push_back(key);
    sim_.submit(rank_, std::make_shared<const Request>(request),
                [this, op, blocks, key](const Completed& completed) {
                  --waiting_;
                  if (const auto found = std::ranges::find(submitted_, key); found != submitted_.end())
                    submitted_.erase(found);
                  check(op, completed);
                  if (failed_) return;
                  if (blocks) return submit_next();
                  if (all_submitted_ && waiting_ == 0) submit_next();
                });
    if (blocks) sim_.want(rank_, key.first, key.second);
  }

  void check(const Op& op, const Completed& completed) {
    const Code code = completed.status.code();
    if (code == Code::peer_lost || code == Code::shut_down || code == Code::aborted) {
      failed_ = true;
      return;
    }
    const Code expected = op.mismatch ? Code::mismatch : op.is_unserved ? Code::invalid_argument : Code::ok;
    if (code != expected) {
      throw Violation(fmt::format("rank {}: '{}' ended with {} '{}'", rank_, op.request.name,
                                  static_cast<int>(code), completed.status.message()));
    }
    if (op.adds >= 0) {
      auto& id = job_.sets[index(op.adds)].id;
      if (id && *id != completed.value) throw Violation("a process set has two ids");
      id = static_cast<ProcessSetId>(completed.value);
    }
    if (completed.ran) {
      const int all = op.is_message()    ? 2
                      : op.set == kWorld ? sim_.ranks()
                                         : static_cast<int>(job_.sets[index(op.set)].ranks.size());
      const int contributors = op.contributors == 0 || job_.divides_by_all ? all : op.contributors;
      if (completed.contributors != contributors) {
        throw Violation(fmt::format("rank {}: '{}' has {} contributors instead of {}", rank_, op.request.name,
                                    completed.contributors, contributors));
      }
    }
  }

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  Sim& sim_;
  Job& job_;
  Rank rank_;
  std::size_t step_ = 0;
  int round_ = 0;
  bool joined_ = false;
  bool last_ = false;
  bool finished_ = false;
  bool failed_ = false;
  bool all_submitted_ = false;
  int waiting_ = 0;
  std::vector<Op> todo_;
  std::vector<std::pair<ProcessSetId, std::string>> submitted_;
};

}  // namespace

namespace {

RunResult run_job(unsigned seed, int ranks, RunResult& result) {
  std::mt19937 random(seed);
  const auto pick = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  SimOptions options;
  options.seed = seed;
  options.ranks = ranks > 0 ? ranks : pick(1, 14);
  options.ranks_per_host = pick(1, 5);
  options.radix = pick(0, 3);
  options.jitter = pick(0, 20);
  options.negotiator.stall_check = seconds(60);
  options.negotiator.sequencer.cache_capacity =
      static_cast<std::size_t>(pick(0, 3) == 0 ? pick(0, 30) : 1000);
  options.negotiator.sequencer.learned_batch_bytes = pick(0, 2) == 0 ? 0 : 400;
  options.negotiator.sequencer.fusion = {.threshold = pick(0, 4) == 0   ? 0
                                                      : pick(0, 1) == 0 ? 1000
                                                                        : 1 << 20,
                                         .alone = pick(0, 2) == 0 ? 300U : 1U << 20,
                                         .mixes_groups = pick(0, 2) != 0};
  Generator generator(random, options.ranks);
  Job job = generator.job();
  options.without_devices = job.without_devices;
  options.negotiator.sequencer.joins_as_horovod = job.divides_by_all = pick(0, 3) == 0;
  Sim sim(options);
  std::vector<std::unique_ptr<Program>> programs;
  for (Rank rank = 0; rank < options.ranks; ++rank)
    programs.push_back(std::make_unique<Program>(sim, job, rank));
  for (const auto& program : programs)
    sim.after(microseconds(pick(0, 500)), [&program] { program->start(); });

  const int ending = pick(0, 5);  // 0: a rank dies, 1: a rank leaves early
  const Rank victim = pick(0, options.ranks - 1);
  const bool disturbed = ending <= 1 && options.ranks > 1;
  if (disturbed) {
    sim.after(microseconds(pick(0, 20000)), [&sim, victim, ending] {
      if (ending == 0) {
        sim.kill(victim);
      } else {
        sim.leave(victim);
      }
    });
  }
  for (std::uint64_t change = 1, last = static_cast<std::uint64_t>(pick(0, 3)); change <= last; ++change)
    sim.after(milliseconds(5 * change) + microseconds(pick(0, 4000)),
              [&sim, change] { sim.announce_change(change); });
  result.text =
      fmt::format("{} ranks, {} a host, radix {}, {} slots, {}", options.ranks, options.ranks_per_host,
                  options.radix, options.negotiator.sequencer.cache_capacity,
                  !disturbed    ? "to the end"
                  : ending == 0 ? fmt::format("rank {} dies", victim)
                                : fmt::format("rank {} leaves", victim));
  sim.run(minutes(10));
  if (!disturbed) {
    sim.check_quiet();
    for (Rank rank = 0; rank < options.ranks; ++rank) {
      if (!programs[static_cast<std::size_t>(rank)]->finished()) {
        throw Violation(fmt::format("rank {} did not finish", rank));
      }
    }
    if (sim.warnings() > 0) throw Violation("a stall was reported: " + sim.last_warning());
  }
  std::vector<Rank> order(static_cast<std::size_t>(options.ranks));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, random);
  for (const Rank rank : order) sim.after(microseconds(pick(0, 300)), [&sim, rank] { sim.leave(rank); });
  sim.run(minutes(10));
  if (sim.pending() > 0) sim.check_quiet();
  for (Rank rank = 0; rank < options.ranks; ++rank) {
    if (!sim.is_dead(rank) && !sim.is_over(rank)) throw Violation(fmt::format("rank {} never ended", rank));
    result.orders += sim.orders(rank);
  }
  result.events = sim.events();
  return result;
}

}  // namespace

RunResult run_random_job(unsigned seed, int ranks) {
  RunResult result;
  try {
    return run_job(seed, ranks, result);
  } catch (const Violation& violation) {
    throw Violation(fmt::format("{}: {}", result.text, violation.what()));
  }
}

}  // namespace dabke::test
