#include <algorithm>
#include <bit>

#include "generate_calls.h"
#include "generate_start.h"
#include "program.h"
#include "random.h"

namespace storm {
namespace {

constexpr std::size_t kMostSets = 5;  // at a time, including the world

class EpochMaker {
 public:
  EpochMaker(Random& random, const Program& program, Epoch& epoch)
      : random_(random),
        everybody_((1U << program.ranks) - 1),
        epoch_(epoch),
        calls_(random, {epoch.knobs.contains("COMPRESSION"), random.chance(25)}) {}

  void make(int phases, int steady) {
    epoch_.sets.push_back({everybody_});
    alive_.push_back(0);
    while (random_.chance(30) && add_set(false)) ++epoch_.static_sets;
    for (int i = 0; i < phases; ++i) {
      make_phase();
      if (random_.chance(25)) repeat_phase(random_.between(1, 12));
    }
    if (steady > 0) repeat_phase(steady);
    for (int i = random_.below(12) - 9; i > 0; --i) {
      const int set = random_.pick(alive_);
      const Ranks some = random_.proper_part(ranks_of(set));
      if (some == 0) continue;
      epoch_.leftovers.push_back(calls_.lonely(set, ranks_of(set), some));
      epoch_.leftovers.back().ending = Ending::shut_down;
    }
  }

 private:
  Ranks ranks_of(int set) const { return epoch_.sets[static_cast<std::size_t>(set)].ranks; }
  bool exists(Ranks ranks) const {
    return std::ranges::any_of(alive_, [&](int set) { return ranks_of(set) == ranks; });
  }
  Ranks any_ranks() { return 1 + static_cast<Ranks>(random_.next()) % everybody_; }

  bool among_members(int set) const { return epoch_.sets[static_cast<std::size_t>(set)].among_members; }

  bool add_set(bool among_members) {
    const Ranks ranks = any_ranks();
    if (alive_.size() == kMostSets || exists(ranks)) return false;
    alive_.push_back(static_cast<int>(epoch_.sets.size()));
    epoch_.sets.push_back({ranks, among_members});
    return true;
  }

  void make_phase() {
    Phase phase;
    phase.order = random_.next();
    std::vector<int> usable = alive_;  // sets that exist before and after the phase
    if (random_.chance(40)) change_sets(phase, usable);
    const int count = random_.chance(15) ? random_.between(15, 40) : random_.between(1, 12);
    const bool stays_in_one = random_.chance(20);
    const int one = random_.pick(usable);
    for (int i = 0; i < count; ++i) {
      const int set = stays_in_one || random_.chance(30) ? one : random_.pick(usable);
      phase.calls.push_back(calls_.call(set, ranks_of(set)));
      if (random_.chance(6)) calls_.add_follower(phase.calls.back(), ranks_of(set));
    }
    // The calls are in the order of submission.
    std::ranges::stable_partition(phase.calls, [](const Call& call) { return !call.is_last; });
    if (random_.chance(25)) join_some(phase, usable);
    const bool is_quarrelsome = random_.chance(20);
    for (Call& call : phase.calls) {
      if (call.ending == Ending::ok && random_.chance(is_quarrelsome ? 30 : 3)) calls_.make_odd(call);
      if (call.ending == Ending::ok && random_.chance(5)) calls_.refuse_outputs(call);
    }
    phase.is_traced = random_.chance(8);
    phase.is_dumped = random_.chance(3);
    phase.refusals = random_.chance(30) ? random_.between(1, 6) : 0;
    epoch_.phases.push_back(std::move(phase));
  }

  /// Repeats the phase as a training loop does, so that batches are learned.
  void repeat_phase(int times) {
    const Phase first = epoch_.phases.back();
    if (!std::ranges::all_of(first.calls,
                             [&](const Call& call) { return std::ranges::count(alive_, call.set) != 0; }))
      return;
    for (int i = 0; i < times; ++i) {
      Phase phase = first;
      phase.changes.clear();
      phase.is_traced = phase.is_dumped = false;
      phase.refusals = 0;
      if (random_.chance(20)) phase.order = random_.next();
      for (Call& call : phase.calls) call = calls_.again(call);
      epoch_.phases.push_back(std::move(phase));
    }
  }

  void change_sets(Phase& phase, std::vector<int>& usable) {
    for (int i = random_.between(1, 3); i > 0; --i) {
      SetChange change;
      const int what = random_.below(100);
      if (what < 45) {
        if (!add_set(random_.chance(50))) continue;
        change.set = alive_.back();
      } else if (what < 85) {
        const int gone = random_.pick(usable);
        if (gone == 0) continue;
        change.what = SetChange::What::remove;
        change.set = gone;
        std::erase(usable, gone);
        std::erase(alive_, gone);
        const Ranks some = random_.proper_part(ranks_of(gone));
        if (some != 0 && random_.chance(30)) {
          change.orphans.push_back(calls_.lonely(gone, ranks_of(gone), some));
          change.orphans.back().ending = Ending::removed;
        }
      } else if (what < 93) {
        change.set = random_.pick(usable);
        change.what = among_members(change.set) ? SetChange::What::add_again : SetChange::What::add_existing;
      } else {
        change.what = SetChange::What::add_different;
        change.odd = random_.proper_part(everybody_);
        change.other_ranks = any_ranks();
        if (change.odd == 0 || change.other_ranks == everybody_) continue;
      }
      phase.changes.push_back(std::move(change));
    }
  }

  /// Some ranks run out of data at some place in the calls of each name. A rank may run out of one name
  /// before another. After its join, it must not reach an earlier name.
  void join_some(Phase& phase, const std::vector<int>& usable) {
    for (const int set : usable) {
      if (!random_.chance(set == 0 ? 60 : 40)) continue;
      phase.joins.push_back(set);
      std::map<std::string, Ranks> active;
      for (Call& call : phase.calls) {
        if (call.set != set || call.kind == Kind::message) continue;
        Ranks& left = active.try_emplace(call.key, ranks_of(set)).first->second;
        if (random_.chance(35)) left &= static_cast<Ranks>(random_.next());
        call.takers = left;
        call.followers.clear();  // a follower could come after its rank's join
        if (call.kind == Kind::broadcast && !has(left, call.root)) call.ending = Ending::root_joined;
      }
    }
    std::erase_if(phase.calls, [](const Call& call) { return call.takers == 0; });
  }

  Random& random_;
  Ranks everybody_;
  Epoch& epoch_;
  CallMaker calls_;
  std::vector<int> alive_;
};

}  // namespace

Program program_of(std::uint64_t seed, int steady) {
  Program program;
  program.seed = seed;
  Random random(hash(seed));
  choose_start(random, program);
  const int epochs = random.one_of({1, 1, 1, 1, 1, 2, 2, 3});
  for (int i = 0; i < epochs; ++i) {
    Epoch& epoch = program.epochs.emplace_back();
    choose_knobs(random, program, epoch);
    EpochMaker(random, program, epoch).make(random.between(1, 8), steady);
  }
  return program;
}

}  // namespace storm
