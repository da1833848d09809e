// The negotiation through dabke.hpp. The first argument names the scenario.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <thread>

#include "dabke/dabke.hpp"
#include "worker.h"

namespace {

using dabke::rank;
using dabke::size;
using worker::must_contain;
using worker::must_equal;
using Floats = std::vector<float>;

constexpr double kPatience = 150;  // seconds; a longer wait is a hang

void must_end(const dabke::Handle& handle, const std::string& what) {
  if (!handle.wait(kPatience)) worker::wrong(what + " hangs");
}

/// Returns the text of the error that `call` must throw.
template <class Call>
std::string error_of(const std::string& what, dabke_status status, Call&& call) {
  try {
    call();
  } catch (const dabke::Error& error) {
    must_equal(what + ": " + error.what(), std::string(dabke_status_name(error.status())),
               std::string(dabke_status_name(status)));
    return error.what();
  }
  worker::wrong(what + ": no error");
}

/// Checks that all ranks hold the same text as this rank.
void must_be_everywhere(const std::string& text) {
  std::vector<std::int8_t> bytes(text.begin(), text.end());
  const dabke::Handle gathered = dabke::allgather("a text", bytes);
  const auto texts = gathered.elements<std::int8_t>();
  std::string want;
  for (int i = 0; i < size(); ++i) want += text;
  must_equal("the texts of all ranks", std::string(texts.begin(), texts.end()), want);
}

float sum_on(dabke_process_set set, const std::string& name, float value) {
  Floats x{value};
  dabke::allreduce(name, x, {.process_set = set, .op = DABKE_SUM});
  return x[0];
}

void use_set(dabke_process_set set, const std::vector<std::int32_t>& ranks) {
  const std::string what = "on process set " + std::to_string(set);
  if (std::ranges::find(ranks, rank()) == ranks.end()) {
    Floats x{1};
    const std::string text = error_of(what, DABKE_ERROR_UNKNOWN_PROCESS_SET,
                                      [&] { dabke::allreduce("x", x, {.process_set = set}); });
    return must_contain(what, text, "this rank is not in process set");
  }
  const auto count = static_cast<std::int32_t>(ranks.size());
  const auto total = static_cast<float>(std::accumulate(ranks.begin(), ranks.end(), 0));
  Floats x{static_cast<float>(rank()), 4};
  dabke::allreduce("x", x, {.process_set = set});
  must_equal(what + ": average", x, Floats{total / static_cast<float>(count), 4});
  must_equal(what + ": sum", sum_on(set, "y", static_cast<float>(rank())), total);
  std::vector<std::int32_t> cast{rank()};
  dabke::broadcast("cast", cast, {.process_set = set, .root_rank = ranks.back()});
  must_equal(what + ": broadcast", cast, std::vector{ranks.back()});
  std::vector<std::int32_t> mine{rank()};
  must_equal(what + ": allgather", dabke::allgather("g", mine, {.process_set = set}).elements<std::int32_t>(),
             ranks);
  std::vector<std::int32_t> rows(ranks.size(), rank());
  const dabke::Handle exchanged = dabke::alltoall("e", rows, {.process_set = set});
  must_equal(what + ": alltoall", exchanged.elements<std::int32_t>(), ranks);
  const dabke::Handle scattered = dabke::reducescatter("s", rows, {.process_set = set, .op = DABKE_SUM});
  must_equal(what + ": reducescatter", scattered.elements<std::int32_t>(),
             std::vector{std::accumulate(ranks.begin(), ranks.end(), 0)});
  dabke::barrier({.process_set = set});
}

void process_sets() {
  const dabke::Session session;
  for (int round = 0; round < 2; ++round) {  // a removed set can be added again, with another id
    std::vector<dabke_process_set> ids;
    std::vector<std::vector<std::int32_t>> lists;
    for (std::int32_t first = 0; first < size(); ++first) {
      const std::int32_t second = (first + 1) % size();
      lists.push_back(size() == 2 ? std::vector{first}
                                  : std::vector{std::min(first, second), std::max(first, second)});
      ids.push_back(dabke::add_process_set(lists.back()));
      must_equal("the new id", ids.back(), first + 1 + round * size());
    }
    for (std::size_t i = 0; i < ids.size(); ++i) use_set(ids[i], lists[i]);
    const std::string text = error_of("a set that exists", DABKE_ERROR_INVALID_ARGUMENT,
                                      [&] { dabke::add_process_set(lists.back()); });
    must_contain("a set that exists", text, "exists already: its id is " + std::to_string(ids.back()));
    must_be_everywhere(text);
    for (const dabke_process_set id : ids) dabke::remove_process_set(id);
    error_of("a removed set", DABKE_ERROR_UNKNOWN_PROCESS_SET, [&] { sum_on(ids.front(), "x", 1); });
    error_of("a removed set", DABKE_ERROR_UNKNOWN_PROCESS_SET,
             [&] { dabke::remove_process_set(ids.front()); });
    must_equal("the world goes on", sum_on(DABKE_WORLD, "world", 1), static_cast<float>(size()));
  }
}

/// A ring of pairs. Each rank adds its two pairs in another order than its neighbours.
void sets_among_members() {
  const dabke::Session session;
  const auto pair_of = [](std::int32_t first) { return std::vector{first, (first + 1) % size()}; };
  const std::vector<std::int32_t> upper = pair_of(rank()), lower = pair_of((rank() + size() - 1) % size());
  const dabke::Handle adds_upper = dabke::add_process_set_among_members_async(upper);
  const dabke::Handle adds_lower = dabke::add_process_set_among_members_async(lower);
  adds_upper.wait();
  adds_lower.wait(1e6);
  if (size() > 2) {  // otherwise both sets are the world
    Floats x{1}, y{1};
    const dabke::Handle sums_x =
        dabke::allreduce_async("x", x, {.process_set = adds_upper.process_set(), .op = DABKE_SUM});
    const dabke::Handle sums_y =
        dabke::allreduce_async("x", y, {.process_set = adds_lower.process_set(), .op = DABKE_SUM});
    sums_x.wait();
    sums_y.wait();
    must_equal("sums", Floats{x[0], y[0]}, Floats{2, 2});
  }
  dabke::barrier();
  const dabke::Handle removes_lower = dabke::remove_process_set_among_members_async(adds_lower.process_set());
  const dabke::Handle removes_upper = dabke::remove_process_set_among_members_async(adds_upper.process_set());
  removes_lower.wait();
  removes_upper.wait();
  error_of("a set of others", DABKE_ERROR_INVALID_ARGUMENT,
           [] { dabke::add_process_set_among_members({(rank() + 1) % size()}); });
  dabke::barrier();
}

/// The test has set DABKE_PROCESS_SETS to the last rank; the options add the other ranks.
void static_sets() {
  const std::int32_t last = worker::launched_size() - 1;
  std::vector<std::int32_t> others(static_cast<std::size_t>(last));
  std::iota(others.begin(), others.end(), 0);
  const std::int32_t* const lists[] = {others.data()};
  const std::size_t sizes[] = {others.size()};
  dabke_init_options options = DABKE_INIT_OPTIONS_INIT;
  options.process_set_ranks = lists;
  options.process_set_sizes = sizes;
  options.process_set_count = 1;
  {
    const dabke::Session session(&options);
    use_set(1, {last});
    use_set(2, others);
    dabke::barrier();  // rank 0 ends the job for all when it leaves
  }
  const dabke::Session again;
  use_set(1, {last});
  error_of("a set of the earlier init", DABKE_ERROR_UNKNOWN_PROCESS_SET, [] { sum_on(2, "x", 1); });
  dabke::barrier();
}

/// Each rank and its neighbour are a set: with three ranks, a triangle. Every rank submits in an order of its
/// own.
void ring_of_sets() {
  const dabke::Session session;
  std::vector<dabke_process_set> sets;
  for (std::int32_t first = 0; first < size(); ++first)
    sets.push_back(dabke::add_process_set({first, (first + 1) % size()}));
  const int before = (rank() + size() - 1) % size();
  std::mt19937 random(static_cast<unsigned>(rank()));
  for (int round = 0; round < 40; ++round) {
    std::vector<int> lowers{rank(), before, rank(), before};
    if (round % 2 == 0) std::ranges::shuffle(lowers, random);
    std::deque<Floats> values;
    std::deque<dabke::Handle> handles;
    std::vector<int> seen(sets.size());  // uses of the name in each set: the second is queued
    for (const int lower : lowers) {
      const auto times = ++seen[static_cast<std::size_t>(lower)];
      values.push_back({static_cast<float>(rank() * 10 + times)});
      const dabke_process_set set = sets[static_cast<std::size_t>(lower)];
      handles.push_back(dabke::allreduce_async("x", values.back(), {.process_set = set, .op = DABKE_SUM}));
    }
    std::ranges::fill(seen, 0);
    for (std::size_t i = 0; i < lowers.size(); ++i) {
      must_end(handles[i], "a sum in a ring of sets");
      const int lower = lowers[i], times = ++seen[static_cast<std::size_t>(lower)];
      must_equal("sum", values[i],
                 Floats{static_cast<float>((lower + (lower + 1) % size()) * 10 + 2 * times)});
    }
  }
  dabke::barrier();  // rank 0 ends the job for all when it leaves
}

/// Rank r has r + 1 batches of data. Ranks with data share it until no rank has any.
void join() {
  const dabke::Session session;
  for (int batch = 0; batch <= rank(); ++batch) {
    const int partners = size() - batch;  // the ranks from `batch` on
    Floats x{static_cast<float>(rank()), 2};
    const float sum = static_cast<float>(partners * (batch + size() - 1)) / 2;
    const std::string suffix = " of batch " + std::to_string(batch);
    for (const auto& [op, first, second] :
         {std::tuple(DABKE_SUM, sum, 2.0F * static_cast<float>(partners)),
          std::tuple(DABKE_AVERAGE, sum / static_cast<float>(partners), 2.0F),
          std::tuple(DABKE_MIN, static_cast<float>(batch), 2.0F),
          std::tuple(DABKE_MAX, static_cast<float>(size() - 1), 2.0F),
          std::tuple(DABKE_PRODUCT, -1.0F, std::pow(2.0F, static_cast<float>(partners)))}) {
      Floats y = x;
      dabke::allreduce("op " + std::to_string(op) + suffix, y, {.op = op});
      if (op != DABKE_PRODUCT) must_equal("op " + std::to_string(op) + suffix, y[0], first);
      must_equal("op " + std::to_string(op) + suffix, y[1], second);
    }
    std::vector<std::int32_t> mine(2, rank()), want;
    for (int other = batch; other < size(); ++other) want.insert(want.end(), 2, other);
    must_equal("allgather" + suffix, dabke::allgather("g" + suffix, mine).elements<std::int32_t>(), want);
    std::vector<std::int32_t> rows(static_cast<std::size_t>(size()), rank());
    const dabke::Handle exchanged = dabke::alltoall("a" + suffix, rows);
    want.resize(static_cast<std::size_t>(partners));
    std::iota(want.begin(), want.end(), batch);
    must_equal("alltoall" + suffix, exchanged.elements<std::int32_t>(), want);
    std::vector<std::int64_t> received(static_cast<std::size_t>(size()), 1);
    std::fill_n(received.begin(), batch, 0);
    must_equal("rows received" + suffix, exchanged.received_splits(), received);
    const dabke::Handle scattered = dabke::reducescatter("s" + suffix, rows, {.op = DABKE_AVERAGE});
    // An average of integers truncates.
    must_equal("reducescatter" + suffix, scattered.elements<std::int32_t>(),
               std::vector{static_cast<std::int32_t>(sum) / partners});
    std::vector<std::int32_t> cast{rank()};
    dabke::broadcast("b" + suffix, cast, {.root_rank = size() - 1});
    must_equal("broadcast" + suffix, cast, std::vector{size() - 1});
    if (batch > 0) {
      const std::string text = error_of("broadcast from a joined rank", DABKE_ERROR_INVALID_ARGUMENT, [&] {
        dabke::broadcast("c" + suffix, cast, {.root_rank = batch - 1});
      });
      must_contain("broadcast from a joined rank", text, "has joined");
    }
  }
  must_equal("the last to join", dabke::join(), size() - 1);
  must_equal("the average after a join", sum_on(DABKE_WORLD, "after", 1), static_cast<float>(size()));
}

void groups() {
  const dabke::Session session;
  const std::vector<std::string> names{"one", "two", "three"};
  for (int round = 0; round < 3 + size(); ++round) {
    const int bad = round - 3;  // each rank once, from the fourth round on
    Floats one(10, 1);
    std::vector<double> two(rank() == bad ? 6 : 7, 2);
    std::vector<std::int16_t> three(3, 3);
    const std::vector<dabke::Tensor> tensors{one, two, three};
    const dabke::Handle reduced = dabke::grouped_allreduce_async(names, tensors, {.op = DABKE_SUM});
    if (bad >= 0) {
      const std::string text =
          error_of("a bad group", DABKE_ERROR_MISMATCH, [&] { must_end(reduced, "a bad group"); });
      must_contain("a bad group", text, "rank " + std::to_string(bad) + " on ");
      must_be_everywhere(text);
    } else {
      must_end(reduced, "a group");
    }
    const int times = bad >= 0 ? 1 : size();
    must_equal("one", one, Floats(10, static_cast<float>(times)));
    must_equal("two", two, std::vector<double>(two.size(), 2 * times));
    must_equal("three", three, std::vector<std::int16_t>(3, static_cast<std::int16_t>(3 * times)));

    std::vector<std::int32_t> few(static_cast<std::size_t>(rank()), 1),
        equal(static_cast<std::size_t>(size()), 5);
    const std::vector<dabke::Tensor> rows{few, equal};
    const dabke::Handle gathered = dabke::grouped_allgather_async({names.data(), 2}, rows);
    must_end(gathered, "grouped allgather");
    must_equal("rows gathered", gathered.elements<std::int32_t>(0).size(),
               static_cast<std::size_t>(size() * (size() - 1) / 2));
    must_equal("rows gathered", gathered.elements<std::int32_t>(1).size(),
               static_cast<std::size_t>(size() * size()));
    const std::vector<dabke::Tensor> terms{equal, equal};
    const dabke::Handle scattered =
        dabke::grouped_reducescatter_async({names.data(), 2}, terms, {.op = DABKE_SUM});
    must_end(scattered, "grouped reducescatter");
    must_equal("scattered", scattered.elements<std::int32_t>(1), std::vector{5 * size()});
  }
}

void barrier() {
  const dabke::Session session;
  for (int late = 0; late < size(); ++late) {
    dabke_handle* raw = nullptr;
    if (rank() != late) dabke::detail::check(dabke_barrier_async(nullptr, &raw));
    const dabke::Handle waits(raw);
    must_equal("a sum beside the barrier", sum_on(DABKE_WORLD, "beside", 1), static_cast<float>(size()));
    must_equal("done without all ranks", waits.poll(), false);
    must_equal("a sum beside the barrier", sum_on(DABKE_WORLD, "beside", 1), static_cast<float>(size()));
    if (rank() == late) dabke::barrier();
    if (rank() != late) must_end(waits, "a barrier");
  }
}

/// Learned batches: first one rank, then all ranks, wait for a tensor before they submit the next of its
/// batch.
void learned() {
  const dabke::Session session;
  for (int step = 0; step < 60; ++step) {
    const bool one_by_one = step % 20 >= 10 && (step < 40 ? rank() == step / 20 : true);
    Floats a{1}, b{2};
    const dabke::Handle first = dabke::allreduce_async("a", a, {.op = DABKE_SUM});
    if (one_by_one) must_end(first, "a, which is waited for before b");
    const dabke::Handle second = dabke::allreduce_async("b", b, {.op = DABKE_SUM});
    must_end(first, "a");
    must_end(second, "b");
    must_equal("a and b", Floats{a[0], b[0]},
               Floats{static_cast<float>(size()), static_cast<float>(2 * size())});
  }
}

/// The rank in DABKE_TEST_MISSING never submits "gradient". It submits something else, or nothing.
void stall(bool instead) {
  // dabkerun ends the other ranks when the first has failed; here each rank must report how it ended.
  ::signal(SIGTERM, SIG_IGN);
  const dabke::Session session;
  const bool missing = rank() == std::atoi(std::getenv("DABKE_TEST_MISSING"));
  Floats x(4);
  std::optional<dabke::Handle> something_else;
  if (missing && instead) something_else = dabke::allreduce_async("something else", x, {.op = DABKE_SUM});
  dabke::barrier();  // so that reports contain this rank's submission, however slow the rank is
  if (missing && !instead) {
    ::signal(SIGTERM, SIG_DFL);
    while (true) ::pause();
  }
  try {
    if (something_else) {
      something_else->wait();
    } else {
      dabke::allreduce("gradient", x, {.op = DABKE_SUM});
    }
  } catch (const dabke::Error& error) {
    worker::say(std::string("ended ") + dabke_status_name(error.status()) + ": " + error.what());
    // A process that ends without shutdown takes messages along that MPI has only offered to its peers, even
    // the cause.
    if (dabke_controller_enabled("mpi") != 0) (void)dabke_shutdown();
    std::exit(3);
  }
}

/// Steps with spans.
void recorded() {
  const dabke::Session session;
  for (std::uint64_t step = 0; step < 200; ++step) {
    {
      const dabke::Span span("forward");
      Floats x(1000, 1);
      dabke::allreduce("gradient", x);
    }
    dabke::mark_step(step);
  }
  dabke::barrier();
}

/// Steps in which each rank has 20 tensors or more in flight, while three threads have spans that overlap.
/// The tensors belong to the world and to two process sets, with the same names. The first set has the lower
/// half of the ranks, the second set has all ranks except rank 0.
void recorded_in_flight() {
  struct Part {
    dabke_process_set set = DABKE_WORLD;
    int count = 14;  // the number of tensors
    int members = size();
    bool is_mine = true;
  };
  const dabke::Session session;
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const std::span lower = std::span(ranks).first(ranks.size() / 2), later = std::span(ranks).subspan(1);
  const std::array parts{Part{}, Part{dabke::add_process_set(lower), 6, size() / 2, rank() < size() / 2},
                         Part{dabke::add_process_set(later), 6, size() - 1, rank() > 0}};
  std::barrier<> between(3);
  const auto work = [&](const Part& part) {
    for (int step = 0; step < 50; ++step) {
      const dabke::Span outer("outer");
      between.arrive_and_wait();  // all three threads have begun
      const dabke::Span inner("inner");
      std::vector<Floats> tensors(static_cast<std::size_t>(part.is_mine ? part.count : 0), Floats(2000, 1));
      std::vector<dabke::Handle> handles;
      for (std::size_t i = 0; i < tensors.size(); ++i)
        handles.push_back(dabke::allreduce_async("t" + std::to_string(i), tensors[i],
                                                 {.process_set = part.set, .op = DABKE_SUM}));
      between.arrive_and_wait();  // all tensors are in flight
      for (dabke::Handle& handle : handles) handle.wait();
      for (const Floats& sum : tensors)
        worker::must_equal("a sum", sum, Floats(2000, static_cast<float>(part.members)));
    }
  };
  {
    const std::jthread one([&] { work(parts[1]); }), two([&] { work(parts[2]); });
    work(parts[0]);
  }
  dabke::barrier();
}

/// Steps until the limit has ended the timeline, and some more.
void recorded_up_to_a_limit() {
  const std::string file = std::string(std::getenv("DABKE_TIMELINE")) + ".rank0";
  const double limit = std::atof(std::getenv("DABKE_TIMELINE_MAX_BYTES"));
  const dabke::Session session;
  std::vector<Floats> gradients(static_cast<std::size_t>(std::atoi(std::getenv("DABKE_TEST_TENSORS"))),
                                Floats(1000, 1));
  auto step = [&gradients, number = std::uint64_t{0}]() mutable {
    const dabke::Span span("forward");
    std::vector<dabke::Handle> pending;
    for (Floats& gradient : gradients)
      pending.push_back(dabke::allreduce_async("gradient " + std::to_string(pending.size()), gradient));
    for (dabke::Handle& one : pending) one.wait();
    dabke::mark_step(number++);
  };
  for (bool goes_on = true; goes_on;) {
    for (int i = 0; i < 50; ++i) step();
    std::error_code ignored;
    const auto size = static_cast<double>(std::filesystem::file_size(file, ignored));
    std::vector<std::int32_t> far{rank() == 0 && size < 0.6 * limit};
    dabke::broadcast("goes on", far);
    goes_on = far[0] != 0;
  }
  for (int i = 0; i < 400; ++i) step();
}

/// First one rank, then all ranks, start and stop a timeline, while ranks are at different places of the same
/// steps.
void starts_and_stops() {
  const std::string folder = std::getenv("DABKE_TEST_FOLDER");
  const dabke::Session session;
  Floats x(1000, 1), y(2000, 1);
  std::minstd_rand random(static_cast<unsigned>(rank()) + 1);
  const auto must = [](dabke_status status) {
    if (status != DABKE_OK) worker::wrong(dabke_last_error());
  };
  for (std::uint64_t step = 0; step < 400; ++step) {
    if (rank() == 2 && step == 100) must(dabke_start_timeline((folder + "/one").c_str(), 0));
    if (rank() == 2 && step == 200) must(dabke_stop_timeline());
    if (step == 250) must(dabke_start_timeline((folder + "/all").c_str(), 0));
    if (step == 300) must(dabke_stop_timeline());
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    const dabke::Handle first = dabke::allreduce_async("first", x),
                        second = dabke::allreduce_async("second", y);
    first.wait();
    second.wait();
    dabke::mark_step(step);
  }
}

void must_work(dabke_status status) {
  if (status != DABKE_OK) worker::wrong(dabke_last_error());
}

/// Records some steps, and ends as a program that checks the result of dabke_shutdown.
void recorded_and_checked() {
  must_work(dabke_init(nullptr));
  for (std::uint64_t step = 0; step < 200; ++step) {
    Floats x(1000, 1);
    dabke::allreduce("gradient", x);
    dabke::mark_step(step);
  }
  dabke::barrier();
  must_work(dabke_shutdown());
}

/// DABKE_TEST_PERIODS timelines one after the other, in three files by turns. In each period, another of
/// three threads starts and stops the timeline, on every rank. Meanwhile all three threads have spans and
/// tensors in flight. Rank 0 copies each closed file.
void timelines_again_and_again() {
  const std::string folder = std::getenv("DABKE_TEST_FOLDER");
  const bool is_horovods = std::string(std::getenv("DABKE_TIMELINE_FORMAT")) == "horovod";
  const int periods = std::atoi(std::getenv("DABKE_TEST_PERIODS"));
  const dabke::Session session;
  const bool writes = rank() == 0 || !is_horovods;
  std::barrier<> between(3);
  const auto work = [&](int thread) {
    const std::string name = "t" + std::to_string(thread), path = folder + "/" + std::to_string(thread);
    for (int period = 0; period < periods; ++period) {
      const dabke::Span outside("outside");  // a timeline starts and stops within it
      const bool calls = period % 3 == thread;
      if (calls) must_work(dabke_start_timeline(path.c_str(), 0));
      if (calls && writes && dabke_start_timeline((folder + "/other").c_str(), 0) == DABKE_OK)
        worker::wrong("a second timeline was started beside the first");
      for (int i = 0; i < 5; ++i) {
        const dabke::Span inside("inside");
        Floats x(1000, 1);
        dabke::allreduce(name, x, {.op = DABKE_SUM});
        worker::must_equal("a sum", x, Floats(1000, static_cast<float>(size())));
      }
      between.arrive_and_wait();
      if (calls) must_work(dabke_stop_timeline());
      if (calls && rank() == 0)
        std::filesystem::copy_file(path, folder + "/closed-" + std::to_string(period));
      between.arrive_and_wait();
    }
  };
  {
    const std::jthread one([&] { work(1); }), two([&] { work(2); });
    work(0);
  }
  dabke::barrier();
}

/// DABKE_TEST_PERIODS timelines in the same file, one right after the other. Only the last rank starts and
/// stops them. It makes the next start while rank 0 still writes the trace of the period before.
void timelines_on_one_path() {
  const std::string path = std::string(std::getenv("DABKE_TEST_FOLDER")) + "/trace";
  const int periods = std::atoi(std::getenv("DABKE_TEST_PERIODS"));
  const dabke::Session session;
  std::atomic<bool> calls = rank() == size() - 1;
  std::atomic<int> steps = 0;
  const std::jthread caller([&, is_caller = calls.load()] {
    for (int period = 0; is_caller && period < periods; ++period) {
      must_work(dabke_start_timeline(path.c_str(), 0));
      for (const int begin = steps; steps < begin + 3;) std::this_thread::yield();
      must_work(dabke_stop_timeline());
    }
    calls = false;
  });
  for (bool goes_on = true; goes_on; ++steps) {
    const dabke::Span span("step");
    std::vector<std::int32_t> callers{calls ? 1 : 0};
    dabke::allreduce("callers", callers, {.op = DABKE_SUM});
    goes_on = callers[0] != 0;
  }
}

/// Steps until it is killed. Prints "writes" when the files of ranks 0 and 1 contain records.
void recorded_on_and_on() {
  const std::string file = std::getenv("DABKE_TEST_FILE");
  const std::string last = file.ends_with(".rank0") ? file.substr(0, file.size() - 1) + "1" : file;
  const dabke::Session session;
  Floats x(1000, 1);
  const auto is_large = [](const std::string& path) {
    std::error_code failed;
    const auto size = std::filesystem::file_size(path, failed);
    return !failed && size >= 200'000;
  };
  for (std::uint64_t step = 0, said = 0;; ++step) {
    const dabke::Span span("forward");
    dabke::allreduce("gradient", x);
    dabke::mark_step(step);
    if (rank() != 0 || said != 0 || !is_large(file) || !is_large(last)) continue;
    worker::say("writes");
    said = step;
  }
}

/// Steps until rank DABKE_TEST_VICTIM (default 1) kills itself, once its file contains records. The other
/// ranks ignore SIGTERM, so that dabkerun cannot end them before they have closed their files.
void recorded_until_killed() {
  std::signal(SIGTERM, SIG_IGN);
  const char* const given = std::getenv("DABKE_TEST_VICTIM");
  const int victim = given == nullptr ? 1 : std::atoi(given);
  const std::string file = std::string(std::getenv("DABKE_TIMELINE")) + ".rank" + std::to_string(victim);
  // The unfinished block is lost with the process: at most 200 kB.
  constexpr std::uintmax_t kTwoBlocks = 400'000;
  Floats x(1000, 1);
  try {
    const dabke::Session session;
    for (std::uint64_t step = 0;; ++step) {
      const dabke::Span span("forward");
      dabke::allreduce("gradient", x);
      dabke::mark_step(step);
      std::error_code ignored;
      if (rank() == victim && step > 100 && std::filesystem::file_size(file, ignored) > kTwoBlocks)
        ::raise(SIGKILL);
    }
  } catch (const dabke::Error&) {
    std::exit(3);
  }
}

/// Steps of two tensors, before which one rank is late by DABKE_TEST_LATE_MS. The late rank is
/// DABKE_TEST_LATE_RANK, or each rank by turns if that is not set.
///
/// A late rank prints two times, each the median of the steps in which it was late, by its own clock:
/// - the time that it slept
/// - the time between the last other rank's submission and its own
///
/// The two differ on a busy machine: the rank that sleeps may have had the result of the step before earlier
/// or later than the others. Rank 0 prints whether the lateness is clear, or hidden by other delays of the
/// machine.
void late_rank() {
  using Ms = std::chrono::duration<double, std::milli>;
  const auto now_ns = [] {
    return static_cast<double>(std::chrono::steady_clock::now().time_since_epoch().count());
  };
  const char* const fixed = std::getenv("DABKE_TEST_LATE_RANK");
  const Ms late(std::atof(std::getenv("DABKE_TEST_LATE_MS")));
  const dabke::Session session;
  Floats x(1000, 1), y(2000, 1);
  constexpr std::size_t kSteps = 60;
  const auto late_one = [fixed](std::size_t step) {
    return fixed != nullptr ? std::strtoull(fixed, nullptr, 10) : step % static_cast<std::size_t>(size());
  };
  const auto me = static_cast<std::size_t>(rank());
  std::vector<double> slept, ready(kSteps);
  for (std::size_t step = 0; step < kSteps; ++step) {
    {
      const dabke::Span load("load");
      if (late_one(step) == me) {
        const double start = now_ns();
        std::this_thread::sleep_for(late);
        slept.push_back((now_ns() - start) / 1e6);
      }
    }
    const dabke::Handle first = dabke::allreduce_async("first", x),
                        second = dabke::allreduce_async("second", y);
    ready[step] = now_ns();
    first.wait();
    second.wait();
    dabke::mark_step(step);
  }
  const dabke::Handle gathered = dabke::allgather("ready", ready);
  const auto all = gathered.elements<double>();
  std::vector<double> after;
  for (std::size_t step = 1; step < kSteps; ++step) {  // the first step includes the start of the ranks
    if (late_one(step) != me) continue;
    double others = 0;
    for (std::size_t other = 0; other < static_cast<std::size_t>(size()); ++other) {
      if (other != me) others = std::max(others, all[other * kSteps + step]);
    }
    after.push_back((ready[step] - others) / 1e6);
  }
  const auto median = [](std::vector<double>& values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
  };
  if (!after.empty()) std::printf("slept %.3f ms, late by %.3f ms\n", median(slept), median(after));
  if (rank() != 0) return;
  // The time that each rank cost the others, and the costs of those steps in which the late rank was the
  // last.
  std::vector<double> cost(static_cast<std::size_t>(size())), late_costs;
  for (std::size_t step = 1; step < kSteps; ++step) {
    std::size_t last = 0;
    const auto ready_of = [&](std::size_t one) { return all[one * kSteps + step]; };
    for (std::size_t one = 1; one < cost.size(); ++one) last = ready_of(one) > ready_of(last) ? one : last;
    double before = 0;
    for (std::size_t one = 0; one < cost.size(); ++one)
      before = one == last ? before : std::max(before, ready_of(one));
    cost[last] += (ready_of(last) - before) / 1e6;
    if (last == late_one(step)) late_costs.push_back((ready_of(last) - before) / 1e6);
  }
  const double whole = std::accumulate(cost.begin(), cost.end(), 0.0);
  bool is_clear = static_cast<double>(late_costs.size()) > 0.95 * kSteps;
  if (is_clear && fixed != nullptr)
    is_clear = cost[late_one(0)] > 0.9 * whole && whole < 1.5 * median(late_costs) * kSteps;
  if (fixed == nullptr)
    is_clear = is_clear && std::ranges::max(cost) < 1.2 * whole / static_cast<double>(size());
  std::printf("the lateness is %s\n", is_clear ? "clear" : "hidden");
}

void stall_instead() { stall(true); }
void stall_idle() { stall(false); }

/// The calls that a user tries first. With DABKE_TEST_STEPS=1, a call follows in which each rank passes
/// another shape.
void two_calls() {
  const dabke::Session session;
  Floats x(2, 1);
  for (int i = 0; i < 2; ++i) dabke::allreduce("layer1.weight", x);
  if (std::atoi(std::getenv("DABKE_TEST_STEPS")) == 0) return;
  Floats bad(static_cast<std::size_t>(4 + rank()), 1);
  try {
    dabke::allreduce("bad", bad);
  } catch (const dabke::Error&) {
  }
}

void one_by_one() {
  const dabke::Session session;
  Floats x(10, 1);
  for (int step = 0; step < std::atoi(std::getenv("DABKE_TEST_STEPS")); ++step) {
    for (int tensor = 0; tensor < 40; ++tensor) dabke::allreduce("tensor " + std::to_string(tensor), x);
    dabke::mark_step(static_cast<std::uint64_t>(step));
  }
}

}  // namespace

int main(int argc, char** argv) {
  constexpr worker::Scenario kScenarios[] = {
      {"process-sets", process_sets},
      {"static-sets", static_sets},
      {"sets-among-members", sets_among_members},
      {"ring-of-sets", ring_of_sets},
      {"join", join},
      {"groups", groups},
      {"barrier", barrier},
      {"learned", learned},
      {"stall-instead", stall_instead},
      {"stall-idle", stall_idle},
      {"recorded", recorded},
      {"recorded-in-flight", recorded_in_flight},
      {"recorded-up-to-a-limit", recorded_up_to_a_limit},
      {"starts-and-stops", starts_and_stops},
      {"recorded-until-killed", recorded_until_killed},
      {"recorded-and-checked", recorded_and_checked},
      {"timelines-again-and-again", timelines_again_and_again},
      {"timelines-on-one-path", timelines_on_one_path},
      {"recorded-on-and-on", recorded_on_and_on},
      {"late-rank", late_rank},
      {"two-calls", two_calls},
      {"one-by-one", one_by_one},
  };
  return worker::run_scenario(argc, argv, kScenarios);
}
