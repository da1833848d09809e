// Many steps of many tensors, in orders of each rank's own, while process sets come and go and one rank is
// slow.
//
//   endurance_worker STEPS SEED
//
// Decisions that the ranks must share follow from SEED. The order in which a rank submits follows from SEED
// and the rank.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>

#include "dabke/dabke.hpp"
#include "worker.h"

namespace {

using dabke::rank;
using dabke::size;

constexpr int kTensors = 200;     // the world's tensors in each step
constexpr int kSetTensors = 4;    // each process set's tensors
constexpr int kDtypes = 4;        // each with one reduce operation, so that many tensors fuse
constexpr std::size_t kSets = 2;  // the most sets at a time
constexpr int kSlowFor = 50;      // steps; then the next rank is slow
constexpr double kPatience = 120;

int steps = 0;
unsigned seed = 0;

[[noreturn]] void wrong(int step, const std::string& text) {
  worker::wrong("seed " + std::to_string(seed) + ", step " + std::to_string(step) + ": " + text);
}

/// FNV-1a over all results, step by step.
struct Hash {
  std::uint64_t value = 14695981039346656037ULL;
  void add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes)
      value = (value ^ std::to_integer<std::uint64_t>(byte)) * 1099511628211ULL;
  }
};

struct Set {
  dabke_process_set id = DABKE_WORLD;
  std::vector<std::int32_t> ranks;
  int until = 0;  // the first step without it
  Hash results;

  bool includes(int one) const { return std::ranges::find(ranks, one) != ranks.end(); }
};

/// One tensor of a step: submitted, then checked.
class Work {
 public:
  virtual ~Work() = default;
  virtual void submit() = 0;
  virtual void check(Hash& results) = 0;
};

enum class Kind { allreduce, allgather, broadcast, alltoall, reducescatter };

Kind kind_of(int tensor) {
  switch (tensor % 100) {
    case 3: return Kind::allgather;
    case 13: return Kind::broadcast;
    case 53: return Kind::alltoall;
    case 83: return Kind::reducescatter;
    default: return Kind::allreduce;
  }
}

dabke_reduce_op op_of(int tensor) {
  constexpr std::array kOps{DABKE_SUM, DABKE_AVERAGE, DABKE_MAX, DABKE_PRODUCT};
  if (kind_of(tensor) == Kind::reducescatter) return DABKE_SUM;
  return kOps[static_cast<std::size_t>(tensor % kDtypes)];
}

int length_of(int tensor) { return 1 + tensor * 37 % 64; }

/// A rank's value at a place: from 1 to 3, so that products fit into every dtype.
int value_at(int of, int step, int tensor, int place) {
  return 1 + (of * 5 + step * 7 + tensor * 3 + place) % 3;
}

double reduced(const std::vector<std::int32_t>& ranks, dabke_reduce_op op, int step, int tensor, int place) {
  double result = op == DABKE_PRODUCT ? 1 : 0;
  for (const int one : ranks) {
    const double value = value_at(one, step, tensor, place);
    if (op == DABKE_SUM || op == DABKE_AVERAGE) result += value;
    if (op == DABKE_MAX) result = std::max(result, value);
    if (op == DABKE_PRODUCT) result *= value;
  }
  return op == DABKE_AVERAGE ? result / static_cast<double>(ranks.size()) : result;
}

/// True if the values are equal; an average over three ranks may have a rounding error.
template <class T>
bool is_near(T got, T want) {
  if constexpr (std::is_floating_point_v<T>)
    return std::abs(got - want) <= std::abs(want) * static_cast<T>(1e-6);
  return got == want;
}

template <class T>
class WorkOf final : public Work {
 public:
  WorkOf(const Set& set, int step, int tensor) : set_(set), step_(step), tensor_(tensor) {
    const int rows =
        kind_of(tensor) == Kind::alltoall ? static_cast<int>(set.ranks.size()) * 2 : length_of(tensor);
    for (int place = 0; place < rows; ++place) data_.push_back(value_of(rank(), place));
  }

  void submit() override {
    // Two sets may share a name. But then a rank that is late by a second would be reported as one that mixes
    // up the sets.
    const std::string name = "tensor " + std::to_string(tensor_) + " of " + std::to_string(set_.id);
    const dabke::Options options{.process_set = set_.id, .op = op_of(tensor_), .root_rank = root()};
    switch (kind_of(tensor_)) {
      case Kind::allreduce: handle_ = dabke::allreduce_async(name, data_, options); break;
      case Kind::allgather: handle_ = dabke::allgather_async(name, data_, options); break;
      case Kind::broadcast: handle_ = dabke::broadcast_async(name, data_, options); break;
      case Kind::alltoall: handle_ = dabke::alltoall_async(name, data_, options); break;
      case Kind::reducescatter: handle_ = dabke::reducescatter_async(name, data_, options); break;
    }
  }

  void check(Hash& results) override {
    const std::string what =
        "tensor " + std::to_string(tensor_) + " of process set " + std::to_string(set_.id);
    if (!handle_.wait(kPatience)) wrong(step_, what + " hangs");
    const Kind kind = kind_of(tensor_);
    const bool in_place = kind == Kind::allreduce || kind == Kind::broadcast;
    const std::span<const T> got = in_place ? std::span<const T>(data_) : handle_.template elements<T>();
    const std::vector<T> want = wanted(kind);
    if (!std::ranges::equal(got, want, is_near<T>))
      wrong(step_, what + ": " + worker::text_of(got) + ", not " + worker::text_of(want));
    // Other ranks get another part of these two results.
    if (kind != Kind::alltoall && kind != Kind::reducescatter) results.add(std::as_bytes(got));
  }

 private:
  int root() const { return set_.ranks[static_cast<std::size_t>(tensor_) % set_.ranks.size()]; }
  T value_of(int of, int place) const { return static_cast<T>(value_at(of, step_, tensor_, place)); }

  std::vector<T> wanted(Kind kind) const {
    std::vector<T> want;
    const int rows = static_cast<int>(data_.size()), ranks = static_cast<int>(set_.ranks.size());
    const auto me = static_cast<int>(std::ranges::find(set_.ranks, rank()) - set_.ranks.begin());
    const auto reduction = [&](int place) {
      return static_cast<T>(reduced(set_.ranks, op_of(tensor_), step_, tensor_, place));
    };
    switch (kind) {
      case Kind::allreduce:
        for (int place = 0; place < rows; ++place) want.push_back(reduction(place));
        break;
      case Kind::allgather:
        for (const int one : set_.ranks) {
          for (int place = 0; place < rows; ++place) want.push_back(value_of(one, place));
        }
        break;
      case Kind::broadcast:
        for (int place = 0; place < rows; ++place) want.push_back(value_of(root(), place));
        break;
      case Kind::alltoall:  // two rows for each rank
        for (const int one : set_.ranks)
          want.insert(want.end(), {value_of(one, 2 * me), value_of(one, 2 * me + 1)});
        break;
      case Kind::reducescatter: {
        const int first = me * (rows / ranks) + std::min(me, rows % ranks);
        for (int place = first; place < first + rows / ranks + (me < rows % ranks ? 1 : 0); ++place)
          want.push_back(reduction(place));
        break;
      }
    }
    return want;
  }

  const Set& set_;
  int step_, tensor_;
  std::vector<T> data_;
  dabke::Handle handle_;
};

std::unique_ptr<Work> work_of(const Set& set, int step, int tensor) {
  switch (tensor % kDtypes) {
    case 0: return std::make_unique<WorkOf<float>>(set, step, tensor);
    case 1: return std::make_unique<WorkOf<double>>(set, step, tensor);
    case 2: return std::make_unique<WorkOf<std::int32_t>>(set, step, tensor);
    default: return std::make_unique<WorkOf<std::uint8_t>>(set, step, tensor);
  }
}

/// Computes for some milliseconds. Returns the last of many powers of `base`, which is never 0 modulo a
/// prime.
std::uint64_t slow_work(std::uint64_t base) {
  std::uint64_t power = base;
  for (int i = 0; i < 500'000; ++i) power = power * base % 2147483647;
  return power;
}

/// Fails if another rank of the set has another number.
void must_agree(const Set& set, int step, std::uint64_t mine, const std::string& what) {
  std::vector<std::uint64_t> one{mine};
  const dabke::Handle gathered =
      dabke::allgather("hash of " + std::to_string(set.id), one, {.process_set = set.id});
  for (const std::uint64_t other : gathered.elements<std::uint64_t>()) {
    if (other != mine) wrong(step, what + " differ between ranks");
  }
}

class Endurance {
 public:
  Endurance() : common_(seed), own_(seed + 1 + static_cast<unsigned>(rank())) {
    for (int one = 0; one < size(); ++one) world_.ranks.push_back(one);
  }

  void run() {
    for (int step = 0; step < steps; ++step) {
      std::vector<std::pair<std::unique_ptr<Work>, Hash*>> works;
      for (int tensor = 0; tensor < kTensors; ++tensor)
        works.emplace_back(work_of(world_, step, tensor), &world_.results);
      for (const auto& set : sets_) {
        if (step >= set->until || !set->includes(rank())) continue;
        for (int tensor = 0; tensor < kSetTensors; ++tensor)
          works.emplace_back(work_of(*set, step, 3 + tensor * 50 + step % 2), &set->results);
      }
      const bool is_slow = step / kSlowFor % size() == rank() && step % 5 == 0;
      if (is_slow && slow_work(static_cast<std::uint64_t>(step) + 2) == 0)
        wrong(step, "a power of a number is 0");
      submit(works);
      change_sets(step);
      for (auto& [work, results] : works) work->check(*results);
    }
    must_agree(world_, steps, world_.results.value, "the results of the world");
    for (const auto& set : sets_) {
      if (set->includes(rank())) must_agree(*set, steps, set->results.value, "the results of a process set");
    }
    dabke::barrier();  // rank 0 ends the job for all when it leaves
    worker::say("hash " + std::to_string(world_.results.value) + ", process sets " + std::to_string(added_));
  }

 private:
  void submit(const std::vector<std::pair<std::unique_ptr<Work>, Hash*>>& works) {
    std::vector<Work*> order;
    for (const auto& [work, results] : works) order.push_back(work.get());
    std::ranges::shuffle(order, own_);
    for (Work* work : order) work->submit();
  }

  /// Changes sets while the step's tensors are on their way. All ranks draw the same numbers.
  void change_sets(int step) {
    for (auto& set : sets_) {
      if (step < set->until) continue;
      if (set->includes(rank())) must_agree(*set, step, set->results.value, "the results of a process set");
      dabke::remove_process_set(set->id);
      set.reset();
    }
    std::erase(sets_, nullptr);
    if (step % 10 != 3 || sets_.size() == kSets) return;
    auto set = std::make_unique<Set>();
    const auto mask = 1 + common_() % ((1U << size()) - 2);
    for (std::int32_t one = 0; one < size(); ++one) {
      if ((mask >> one & 1U) != 0) set->ranks.push_back(one);
    }
    set->until = step + 5 + static_cast<int>(common_() % 30);
    for (const auto& other : sets_) {
      if (other->ranks == set->ranks) return;
    }
    set->id = dabke::add_process_set(set->ranks);
    sets_.push_back(std::move(set));
    ++added_;
  }

  std::mt19937 common_, own_;
  Set world_;
  std::vector<std::unique_ptr<Set>> sets_;
  int added_ = 0;
};

void endure() {
  const auto begin = std::chrono::steady_clock::now();
  const dabke::Session session;
  Endurance().run();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (rank() == 0) worker::say(std::to_string(steps) + " steps took " + std::to_string(took.count()) + " s");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  steps = std::atoi(argv[1]);
  seed = static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10));
  std::string name = "endurance";
  char* arguments[] = {argv[0], name.data(), nullptr};
  constexpr worker::Scenario kScenarios[] = {{"endurance", endure}};
  return worker::run_scenario(2, arguments, kScenarios);
}
