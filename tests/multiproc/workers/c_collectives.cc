// Join, groups and barrier over the C API.
#include <array>
#include <string>

#include "c_worker.h"

namespace worker::c {
namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::array kOps{DABKE_SUM,     DABKE_AVERAGE,     DABKE_MIN,        DABKE_MAX,
                          DABKE_PRODUCT, DABKE_BITWISE_AND, DABKE_BITWISE_OR, DABKE_BITWISE_XOR};

// ---- join

/// The rank's place in the order in which the ranks run out of data; rank `last` is at the end. The rank at
/// place p has p + 1 steps.
int place_of(int rank, int last) { return (rank - last - 1 + 2 * all()) % all(); }

/// The ranks that take part in a step.
std::vector<int> partners(int step, int last) {
  std::vector<int> ranks;
  for (int rank = 0; rank < all(); ++rank) {
    if (place_of(rank, last) >= step) ranks.push_back(rank);
  }
  return ranks;
}

/// The rank's value in a step. Values are positive and negative, so that no neutral element can pass for
/// data.
std::int64_t value_of(int rank, int step) { return rank % 2 == 0 ? rank + step + 2 : -(rank + step + 2); }

std::int64_t reduced(dabke_reduce_op op, std::int64_t a, std::int64_t b) {
  switch (op) {
    case DABKE_MIN: return std::min(a, b);
    case DABKE_MAX: return std::max(a, b);
    case DABKE_PRODUCT: return a * b;
    case DABKE_BITWISE_AND: return a & b;
    case DABKE_BITWISE_OR: return a | b;
    case DABKE_BITWISE_XOR: return a ^ b;
    default: return a + b;
  }
}

void reduce_with_partners(dabke_reduce_op op, int step, const std::vector<int>& ranks) {
  Array x({value_of(me(), step), 7});
  const dabke_options options = options_for(DABKE_WORLD, op);
  const std::string name = "reduction " + std::to_string(op) + " of step " + std::to_string(step);
  must(dabke_allreduce(name.c_str(), &x.tensor, nullptr, &options), name);
  Numbers want{value_of(ranks.front(), step), 7};
  for (std::size_t i = 1; i < ranks.size(); ++i)
    want = {reduced(op, want[0], value_of(ranks[i], step)), reduced(op, want[1], 7)};
  if (op == DABKE_AVERAGE) {
    for (std::int64_t& sum : want) sum /= static_cast<std::int64_t>(ranks.size());  // both truncate
  }
  must_equal(name, x.values, want);
}

void move_with_partners(int step, int last, const std::vector<int>& ranks) {
  const std::string suffix = " of step " + std::to_string(step);
  Array mine(Numbers(static_cast<std::size_t>(me() + 1), me()));  // rank + 1 rows
  Handle gathered;
  must(dabke_allgather(("allgather" + suffix).c_str(), &mine.tensor, nullptr, gathered.out()),
       "allgather" + suffix);
  Numbers want;
  for (const int rank : ranks) want.insert(want.end(), static_cast<std::size_t>(rank + 1), rank);
  must_equal("allgather" + suffix, gathered.numbers(), want);
  Array given(Numbers(want.size(), -1));
  must(dabke_allgather_into(("allgather into" + suffix).c_str(), &mine.tensor, &given.tensor, nullptr),
       "allgather into" + suffix);
  must_equal("allgather into" + suffix, given.values, want);

  // Rank i gets i % 2 + 1 rows. Ranks that have joined get rows too, and drop them.
  Numbers rows, splits, received;
  for (int to = 0; to < all(); ++to) {
    splits.push_back(to % 2 + 1);
    rows.insert(rows.end(), static_cast<std::size_t>(splits.back()), me() * 10 + to);
  }
  Array sent(rows);
  dabke_options options = options_for(DABKE_WORLD);
  options.splits = splits.data();
  options.splits_count = splits.size();
  Handle exchanged;
  must(dabke_alltoall(("alltoall" + suffix).c_str(), &sent.tensor, &options, exchanged.out()),
       "alltoall" + suffix);
  want.clear();
  for (int from = 0; from < all(); ++from) {
    const bool sends = std::ranges::find(ranks, from) != ranks.end();
    received.push_back(sends ? me() % 2 + 1 : 0);
    want.insert(want.end(), static_cast<std::size_t>(received.back()), from * 10 + me());
  }
  must_equal("alltoall" + suffix, exchanged.numbers(), want);
  must_equal("rows received by alltoall" + suffix, exchanged.received(), received);
  Array taken(Numbers(want.size(), -1));
  Handle into;
  must(dabke_alltoall_into_async(("alltoall into" + suffix).c_str(), &sent.tensor, &taken.tensor, &options,
                                 into.out()),
       "alltoall into" + suffix);
  into.must_be_well("alltoall into" + suffix);
  must_equal("alltoall into" + suffix, taken.values, want);
  must_equal("rows received by alltoall into" + suffix, into.received(), received);

  // 2n + 1 rows: rank 0 keeps three, each other rank two.
  Numbers terms;
  for (int row = 0; row < 2 * all() + 1; ++row) terms.push_back(row);
  Array whole(terms);
  Handle scattered;
  options = options_for(DABKE_WORLD);
  must(dabke_reducescatter_async(("reducescatter" + suffix).c_str(), &whole.tensor, nullptr, &options,
                                 scattered.out()),
       "reducescatter" + suffix);
  scattered.must_be_well("reducescatter" + suffix);
  want.clear();
  const int first = me() == 0 ? 0 : 2 * me() + 1;
  for (int row = first; row < first + (me() == 0 ? 3 : 2); ++row)
    want.push_back(row * static_cast<int>(ranks.size()));
  must_equal("reducescatter" + suffix, scattered.numbers(), want);

  Array cast({me(), step});
  options.root_rank = last;
  must(dabke_broadcast(("broadcast" + suffix).c_str(), &cast.tensor, nullptr, &options),
       "broadcast" + suffix);
  must_equal("broadcast" + suffix, cast.values, Numbers{last, step});
  if (step == 0) return;
  for (options.root_rank = 0; place_of(options.root_rank, last) >= step;) ++options.root_rank;
  must_fail(dabke_broadcast(("bad" + suffix).c_str(), &cast.tensor, nullptr, &options),
            DABKE_ERROR_INVALID_ARGUMENT, "broadcast from a joined rank",
            "root rank " + std::to_string(options.root_rank) + " has joined");
}

// ---- groups

constexpr std::size_t kMembers = 3;

/// Three tensors of different dtypes and lengths, filled with numbers that a rank and a member determine.
struct Members {
  std::vector<float> floats;
  std::vector<std::int32_t> integers;
  std::vector<double> doubles;
  std::array<std::int64_t, kMembers> counts{5, 300, 1};
  std::array<DLTensor, kMembers> tensors{};
  std::array<const DLTensor*, kMembers> pointers{};
  std::array<const char*, kMembers> names{"floats", "integers", "doubles"};

  explicit Members(int rank, std::int64_t integer_count = 300) {
    counts[1] = integer_count;
    floats.assign(5, static_cast<float>(rank + 1));
    integers.assign(static_cast<std::size_t>(integer_count), 10 * (rank + 1));
    doubles.assign(1, 0.5 * (rank + 1));
    const std::array<void*, kMembers> data{floats.data(), integers.data(), doubles.data()};
    constexpr std::array<DLDataType, kMembers> kDtypes{
        {{kDLFloat, 32, 1}, {kDLInt, 32, 1}, {kDLFloat, 64, 1}}};
    for (std::size_t i = 0; i < kMembers; ++i) {
      tensors[i] = {
          .data = data[i], .device = {kDLCPU, 0}, .ndim = 1, .dtype = kDtypes[i], .shape = &counts[i]};
      pointers[i] = &tensors[i];
    }
  }
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;

  void must_be_times(int factor, const std::string& what) const {
    must_equal(what + ": floats", floats, std::vector<float>(5, static_cast<float>(factor)));
    must_equal(what + ": integers", integers, std::vector<std::int32_t>(integers.size(), 10 * factor));
    must_equal(what + ": doubles", doubles, std::vector<double>(1, 0.5 * factor));
  }
};

int sum_of_ranks() { return all() * (all() + 1) / 2; }  // each plus one

void whole_groups() {
  const dabke_options options = options_for(DABKE_WORLD);
  Members members(me());
  must(dabke_grouped_allreduce(members.names.data(), members.pointers.data(), nullptr, kMembers, &options),
       "group");
  members.must_be_times(sum_of_ranks(), "grouped allreduce");

  // Tensors without dimensions have the shortest description that a group's tensors can have.
  std::array<float, 2> numbers{1, static_cast<float>(me())};
  std::array<DLTensor, 2> scalars{};
  for (std::size_t i = 0; i < 2; ++i) {
    scalars[i] = {.data = &numbers[i], .device = {kDLCPU, 0}, .ndim = 0, .dtype = {kDLFloat, 32, 1}};
  }
  const std::array<const char*, 2> letters{"a", "b"};
  const std::array<const DLTensor*, 2> both{&scalars[0], &scalars[1]};
  must(dabke_grouped_allreduce(letters.data(), both.data(), nullptr, 2, &options), "group of scalars");
  must_equal("grouped allreduce of scalars", numbers,
             std::array<float, 2>{static_cast<float>(all()), static_cast<float>(sum_of_ranks() - all())});

  Array few(Numbers(static_cast<std::size_t>(me()), 1)), two({me(), -me()});
  const std::array<const char*, 2> names{"few", "two"};
  const std::array<const DLTensor*, 2> inputs{&few.tensor, &two.tensor};
  Handle gathered;
  must(dabke_grouped_allgather(names.data(), inputs.data(), 2, &options, gathered.out()),
       "grouped allgather");
  Numbers want;
  for (int rank = 0; rank < all(); ++rank) want.insert(want.end(), {rank, -rank});
  must_equal("grouped allgather, rows by rank", gathered.numbers(0),
             Numbers(static_cast<std::size_t>(sum_of_ranks() - all()), 1));
  must_equal("grouped allgather, two rows each", gathered.numbers(1), want);

  Array a(Numbers(static_cast<std::size_t>(all()), 3)), b(Numbers(static_cast<std::size_t>(2 * all()), me()));
  const std::array<const DLTensor*, 2> terms{&a.tensor, &b.tensor};
  Handle scattered;
  must(dabke_grouped_reducescatter_async(names.data(), terms.data(), nullptr, 2, &options, scattered.out()),
       "scatter");
  scattered.must_be_well("grouped reducescatter");
  must_equal("grouped reducescatter, one row each", scattered.numbers(0), Numbers{3 * all()});
  must_equal("grouped reducescatter, two rows each", scattered.numbers(1),
             Numbers(2, sum_of_ranks() - all()));
}

/// Submits the members one by one, in an order of each rank's own. On rank `bad`, the last member but one has
/// another length.
void group_by_name(const std::string& group, int bad) {
  Members members(me(), me() == bad ? 299 : 300);
  dabke_options options = options_for(DABKE_WORLD);
  options.group = group.c_str();
  options.group_size = kMembers;
  std::array<Handle, kMembers> handles;
  const auto submit = [&](std::size_t step) {
    const std::size_t i = (step + static_cast<std::size_t>(me())) % kMembers;
    const std::string name = group + members.names[i];
    must(dabke_allreduce_async(name.c_str(), members.pointers[i], nullptr, &options, handles[i].out()), name);
  };
  submit(0);
  submit(1);
  must(dabke_barrier(nullptr), "barrier");  // every rank has submitted two of three
  for (const Handle& handle : handles)
    must_equal(group + ": done before its group is whole", handle.is_done(), false);
  members.must_be_times(me() + 1, group + " before it is whole");
  submit(2);
  std::string text;
  for (const Handle& handle : handles) {
    if (bad < 0) {
      handle.must_be_well(group);
      continue;
    }
    handle.must_have_failed(DABKE_ERROR_MISMATCH, group, "Mismatched shape for group '" + group + "'");
    if (!text.empty()) must_equal("the texts of one group", handle.message(), text);
    text = handle.message();
  }
  members.must_be_times(bad < 0 ? sum_of_ranks() : me() + 1, group);
  if (bad >= 0) must_be_everywhere(text);
}

/// A group with one bad member: no member is reduced, and all ranks get the same error.
void group_with_a_bad_member(int bad) {
  const dabke_options options = options_for(DABKE_WORLD);
  Members members(me(), me() == bad ? 299 : 300);
  Handle handle;
  must(dabke_grouped_allreduce_async(members.names.data(), members.pointers.data(), nullptr, kMembers,
                                     &options, handle.out()),
       "submit a bad group");
  handle.must_have_failed(DABKE_ERROR_MISMATCH, "a bad group", "Mismatched shape");
  must_contain("a bad group", handle.message(), "rank " + std::to_string(bad) + " on ");
  members.must_be_times(me() + 1, "a bad group");
  must_be_everywhere(handle.message());
}

}  // namespace

void join() {
  const Job job;
  for (int last = 0; last < all(); ++last) {
    for (int step = 0; step <= place_of(me(), last); ++step) {
      const std::vector<int> ranks = partners(step, last);
      for (const dabke_reduce_op op : kOps) reduce_with_partners(op, step, ranks);
      move_with_partners(step, last, ranks);
    }
    std::int32_t reported = -9;
    must(dabke_join(nullptr, &reported), "join");
    must_equal("the last to join", reported, last);
    must_equal("the sum after a join", sum_on(DABKE_WORLD, "after", 1), all());
  }
  if (all() == 2) return;
  // Ranks 0 and size - 1 of a set join; a rank outside the set is not waited for.
  const std::array<std::int32_t, 2> pair{0, all() - 1};
  dabke_process_set set = -9;
  must(dabke_add_process_set(pair.data(), 2, &set), "add");
  const dabke_options options = options_for(set);
  if (me() == pair[1]) must_equal("the sum without a joined partner", sum_on(set, "alone", 5), 5);
  if (me() == pair[0] || me() == pair[1]) {
    std::int32_t reported = -9;
    must(dabke_join(&options, &reported), "join of a set");
    must_equal("the last of a set to join", reported, pair[1]);
  }
  must_equal("the sum after a set's join", sum_on(DABKE_WORLD, "after", 1), all());
}

void groups() {
  const Job job;
  for (int round = 0; round < 3; ++round) {  // first as new names, then as known ones
    whole_groups();
    group_by_name("good group", -1);
  }
  for (int bad = 0; bad < all(); ++bad) {
    group_with_a_bad_member(bad);
    group_by_name("bad group", bad);
    whole_groups();
  }
}

void barrier() {
  const Job job;
  for (int late = 0; late < all(); ++late) {
    Handle waits;
    if (me() != late) must(dabke_barrier_async(nullptr, waits.out()), "barrier");
    // A sum that is submitted after the barrier passes it. If the barrier could complete early, it would
    // complete before the sum.
    must_equal("a sum beside the barrier", sum_on(DABKE_WORLD, "beside", 1), all());
    must_equal("a barrier without rank " + std::to_string(late) + " is done", waits.is_done(), false);
    must_equal("a sum beside the barrier", sum_on(DABKE_WORLD, "beside", 1), all());
    if (me() == late) must(dabke_barrier(nullptr), "the late barrier");
    if (me() != late) waits.must_be_well("barrier");
  }
}

}  // namespace worker::c
