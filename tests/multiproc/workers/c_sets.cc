// Process sets over the C API.
#include <array>
#include <deque>
#include <random>

#include "c_worker.h"

namespace worker::c {
namespace {

std::vector<dabke_process_set> ids() {
  std::vector<dabke_process_set> found(64);
  std::size_t count = 0;
  must(dabke_process_set_ids(found.data(), found.size(), &count), "ids");
  found.resize(count);
  return found;
}

void must_be_set(dabke_process_set id, const std::vector<std::int32_t>& ranks) {
  const std::string what = "process set " + std::to_string(id);
  std::int32_t rank = -9, size = -9;
  int included = -9;
  must(dabke_process_set_rank(id, &rank), what);
  must(dabke_process_set_size(id, &size), what);
  must(dabke_process_set_included(id, &included), what);
  const auto place = std::ranges::find(ranks, me());
  must_equal(what + ": rank", rank,
             place == ranks.end() ? -1 : static_cast<std::int32_t>(place - ranks.begin()));
  must_equal(what + ": size", static_cast<std::size_t>(size), ranks.size());
  must_equal(what + ": included", included, is_in(ranks, me()) ? 1 : 0);
  std::array<std::int32_t, 2> first{-9, -9};
  std::size_t count = 0;
  must(dabke_process_set_ranks(id, first.data(), 1, &count), what);
  must_equal(what + ": count", count, ranks.size());
  must_equal(what + ": the first rank alone", first, std::array<std::int32_t, 2>{ranks[0], -9});
  std::vector<std::int32_t> copied(ranks.size());
  must(dabke_process_set_ranks(id, copied.data(), copied.size(), &count), what);
  must_equal(what + ": ranks", copied, ranks);
}

void use_set(dabke_process_set id, const std::vector<std::int32_t>& ranks) {
  const std::string what = "on process set " + std::to_string(id);
  Array x({me() + 1, 10});
  dabke_options options = options_for(id);
  if (!is_in(ranks, me())) {
    return must_fail(dabke_allreduce("x", &x.tensor, nullptr, &options), DABKE_ERROR_UNKNOWN_PROCESS_SET,
                     what, "this rank is not in process set");
  }
  const auto size = static_cast<std::int64_t>(ranks.size());
  std::int64_t sum = 0;
  for (const std::int32_t rank : ranks) sum += rank + 1;
  must(dabke_allreduce("x", &x.tensor, nullptr, &options), what);
  must_equal(what + ": the sum", x.values, std::vector<std::int64_t>{sum, 10 * size});
  options.op = DABKE_AVERAGE;
  must(dabke_allreduce("y", &x.tensor, nullptr, &options), what);
  must_equal(what + ": the average of equals", x.values, std::vector<std::int64_t>{sum, 10 * size});

  Array from({me()});
  options.root_rank = ranks.back();
  must(dabke_broadcast("from the last", &from.tensor, nullptr, &options), what);
  must_equal(what + ": broadcast", from.values, std::vector<std::int64_t>{ranks.back()});
  Array mine({me()});
  Handle gathered;
  must(dabke_allgather("ranks", &mine.tensor, &options, gathered.out()), what);
  must_equal(what + ": allgather", gathered.numbers(), ranks);
  must(dabke_barrier(&options), what);
}

}  // namespace

void process_sets() {
  const Job job;
  const unsigned everybody = (1U << all()) - 1;
  must_equal("ids at the start", ids(), std::vector<dabke_process_set>{0});
  std::vector<dabke_process_set> want{0};
  for (unsigned mask = 1; mask < everybody; ++mask) {  // each subset except the world
    std::vector<std::int32_t> ranks = ranks_in(mask);
    std::ranges::reverse(ranks);
    dabke_process_set id = -9;
    must(dabke_add_process_set(ranks.data(), ranks.size(), &id), "add");
    must_equal("the new id", static_cast<unsigned>(id), mask);
    want.push_back(id);
  }
  must_equal("ids with all subsets", ids(), want);
  for (unsigned mask = 1; mask < everybody; ++mask) {
    const auto id = static_cast<dabke_process_set>(mask);
    must_be_set(id, ranks_in(mask));
    if (is_in(ranks_in(mask), all() - 1))
      use_set(id, ranks_in(mask));  // half of the sets: it takes time to connect so many
  }
  const std::int32_t again = 0, own = me();
  must_fail(dabke_add_process_set(&again, 1, nullptr), DABKE_ERROR_INVALID_ARGUMENT, "a set that exists",
            "a process set of ranks 0 exists already: its id is 1");
  must_be_everywhere(dabke_last_error());
  must_fail(dabke_add_process_set(&own, 1, nullptr), DABKE_ERROR_MISMATCH, "each rank with another set",
            "add_process_set");
  must_be_everywhere(dabke_last_error());

  Array never({1});
  Handle waits;
  const dabke_options on_first_two = options_for(3);
  // The last rank of the set never submits; the tensor ends when the set ends.
  const bool submits = all() > 2 && me() == 0;
  if (submits)
    must(dabke_allreduce_async("never", &never.tensor, nullptr, &on_first_two, waits.out()), "never");
  for (unsigned mask = everybody - 1; mask > 0; --mask)
    must(dabke_remove_process_set(static_cast<int>(mask)), "remove");
  if (submits) {
    waits.must_have_failed(DABKE_ERROR_UNKNOWN_PROCESS_SET, "pending in a removed set",
                           "process set 3 was removed");
  }
  must_equal("ids after removal", ids(), std::vector<dabke_process_set>{0});
  const dabke_options gone = options_for(1);
  must_fail(dabke_allreduce("x", &never.tensor, nullptr, &gone), DABKE_ERROR_UNKNOWN_PROCESS_SET,
            "a removed set", "process set 1 does not exist");
  std::int32_t number = 0;
  must_fail(dabke_process_set_size(1, &number), DABKE_ERROR_UNKNOWN_PROCESS_SET, "a removed set",
            "does not exist");
  dabke_process_set id = -9;
  must(dabke_add_process_set(&again, 1, &id), "add after removal");
  must_equal("an id that was never used", static_cast<unsigned>(id), everybody);
  use_set(id, {0});
  must_equal("the world goes on", sum_on(DABKE_WORLD, "at the end", 1), all());
}

/// The test has set DABKE_PROCESS_SETS to the last rank; the options add the other ranks.
void static_sets() {
  const std::int32_t last = launched_size() - 1;
  std::vector<std::int32_t> others;
  for (std::int32_t rank = last - 1; rank >= 0; --rank) others.push_back(rank);
  const std::int32_t* const lists[] = {others.data()};
  const std::size_t sizes[] = {others.size()};
  dabke_init_options options = DABKE_INIT_OPTIONS_INIT;
  options.process_set_ranks = lists;
  options.process_set_sizes = sizes;
  options.process_set_count = 1;
  {
    const Job job(&options);
    std::ranges::sort(others);
    must_equal("ids", ids(), std::vector<dabke_process_set>{0, 1, 2});
    must_be_set(1, {last});
    must_be_set(2, others);
    use_set(1, {last});
    use_set(2, others);
    const dabke_process_set removed = 1;
    must(dabke_remove_process_set(removed), "remove a set of the environment");
    must_equal("ids without it", ids(), std::vector<dabke_process_set>{0, 2});
    use_set(2, others);
    must(dabke_barrier(nullptr), "barrier");  // rank 0 ends the job for all when it leaves
  }
  const Job again;
  must_equal("ids of the environment alone", ids(), std::vector<dabke_process_set>{0, 1});
  use_set(1, {last});
  must(dabke_barrier(nullptr), "barrier");
}

/// All subsets except the world. Only the members add a set, each rank in a random order of its own.
void sets_among_members() {
  const Job job;
  const unsigned everybody = (1U << all()) - 1;
  std::vector<unsigned> masks;
  for (unsigned mask = 1; mask < everybody; ++mask) {
    if (is_in(ranks_in(mask), me())) masks.push_back(mask);
  }
  std::mt19937 random(static_cast<unsigned>(me()));
  std::ranges::shuffle(masks, random);
  std::vector<Handle> adds(masks.size());
  for (std::size_t i = 0; i < masks.size(); ++i) {
    std::vector<std::int32_t> ranks = ranks_in(masks[i]);
    std::ranges::shuffle(ranks, random);
    must(dabke_add_process_set_among_members_async(ranks.data(), ranks.size(), adds[i].out()), "add");
  }
  std::vector<dabke_process_set> sets(everybody + 1, -9);
  for (std::size_t i = 0; i < masks.size(); ++i) {
    adds[i].must_be_well("add among members");
    must(dabke_handle_process_set(adds[i].get(), &sets[masks[i]]), "the new id");
    must_be_set(sets[masks[i]], ranks_in(masks[i]));
  }
  must(dabke_barrier(nullptr), "barrier");  // every rank has added all sets, so this rank has all of them
  must_equal("sets that every rank knows", ids().size(), static_cast<std::size_t>(everybody));
  for (unsigned mask = 1; mask < everybody; ++mask) {  // in one order, since these calls wait
    if (sets[mask] >= 0) use_set(sets[mask], ranks_in(mask));
  }

  // Adds a set again, with another owner.
  const std::int32_t own = me(), other = (me() + 1) % all();
  dabke_process_set again = -9;
  must(dabke_add_process_set_among_members(&own, 1, &again), "add again");
  must_equal("the id of a set that is there", again, sets[1U << me()]);
  must_fail(dabke_add_process_set_among_members(&other, 1, &again), DABKE_ERROR_INVALID_ARGUMENT,
            "a set of others", "which is not one of them");
  must(dabke_remove_process_set_among_members(again), "remove once");
  must_be_set(again, {own});
  must_fail(dabke_remove_process_set_among_members(DABKE_WORLD), DABKE_ERROR_INVALID_ARGUMENT,
            "removing the world", "not added by its members");
  std::ranges::shuffle(masks, random);
  std::vector<Handle> removals(masks.size());
  for (std::size_t i = 0; i < masks.size(); ++i)
    must(dabke_remove_process_set_among_members_async(sets[masks[i]], removals[i].out()), "remove");
  for (const Handle& removal : removals) removal.must_be_well("remove among members");
  must(dabke_barrier(nullptr), "barrier");
  must_equal("ids after removal", ids(), std::vector<dabke_process_set>{0});
  must(dabke_barrier(nullptr), "barrier");  // rank 0 ends the job for all when it leaves
}

/// Each rank and its neighbour are a set: with three ranks, a triangle. Every rank submits in an order of its
/// own.
void ring_of_sets() {
  const Job job;
  constexpr int kRounds = 20, kTensors = 8;
  std::vector<dabke_process_set> sets;
  for (std::int32_t rank = 0; rank < all(); ++rank) {
    const std::int32_t pair[] = {rank, (rank + 1) % all()};
    must(dabke_add_process_set(pair, 2, &sets.emplace_back()), "add");
  }
  const int before = (me() + all() - 1) % all();
  std::mt19937 random(static_cast<unsigned>(me()));
  for (int round = 0; round < kRounds; ++round) {
    // Both sets use the same names.
    std::vector<std::pair<int, int>> work;  // the set's lower neighbour, the tensor
    for (int t = 0; t < kTensors; ++t) work.insert(work.end(), {{me(), t}, {before, t}});
    if (round > 1) {
      std::ranges::shuffle(work, random);
    } else {  // all of one set before the other set, in opposite order on neighbouring ranks
      std::ranges::sort(work, {}, [&](const auto& item) { return (item.first == me()) == (round % 2 == 0); });
    }
    std::deque<Array> values;
    std::vector<Handle> handles(work.size());
    for (std::size_t i = 0; i < work.size(); ++i) {
      const auto [lower, tensor] = work[i];
      values.emplace_back(std::vector<std::int64_t>{(me() + 1) * 100 + tensor, round});
      const dabke_options options = options_for(sets[static_cast<std::size_t>(lower)]);
      const std::string name = "t" + std::to_string(tensor);
      must(dabke_allreduce_async(name.c_str(), &values[i].tensor, nullptr, &options, handles[i].out()), name);
    }
    for (std::size_t i = 0; i < work.size(); ++i) {
      const auto [lower, tensor] = work[i];
      const std::string what = "set of " + std::to_string(lower) + ", tensor " + std::to_string(tensor);
      handles[i].must_be_well(what);
      const std::int64_t sum = (lower + 1 + (lower + 1) % all() + 1) * 100 + 2 * tensor;
      must_equal(what, values[i].values, std::vector<std::int64_t>{sum, 2 * round});
    }
  }
  must(dabke_barrier(nullptr), "barrier");  // rank 0 ends the job for all when it leaves
}

}  // namespace worker::c
