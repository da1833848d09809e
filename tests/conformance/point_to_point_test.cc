// Sends and receives: between every pair of ranks, in any order, beside collectives, and where they do not
// match.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "tests/conformance/values.h"
#include "tests/in_process/job.h"

namespace dabke::test {
namespace {

using Catch::Matchers::Contains;

constexpr int kRanks = 3;

/// The elements of the message that `from` sends to `to`.
std::vector<int> message_of(int from, int to, std::size_t elements) {
  std::vector<int> out(elements);
  for (std::size_t i = 0; i < elements; ++i) out[i] = 1000 * from + 100 * to + static_cast<int>(i % 97);
  return out;
}

}  // namespace

TEST_CASE("every rank sends to every other, messages of any size, and gets what was sent to it") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const std::size_t elements = GENERATE(0U, 1U, 1000U, 100'000U);
  CAPTURE(backend, elements);
  const auto seen = run_on_ranks(backend, kRanks, [&](Rank& self) {
    std::vector<std::vector<int>> out(kRanks), in(kRanks, std::vector<int>(elements, -1));
    std::vector<Pending> pending;
    for (int round = 0; round < 3; ++round) {  // negotiated in full once, then by number
      for (int peer = 0; peer < kRanks; ++peer) {
        if (peer == self.rank()) continue;
        const auto at = static_cast<std::size_t>(peer);
        out[at] = message_of(self.rank(), peer, elements);
        pending.push_back(self.send_async(out[at], peer, 0, {.name = "x"}));
        pending.push_back(self.recv_async(in[at], peer, 0, {.name = "x"}));
      }
      for (const Pending& one : pending) must(one.wait());
      pending.clear();
    }
    return in;
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int from = 0; from < kRanks; ++from) {
      if (from == rank) continue;
      const auto& received = seen[static_cast<std::size_t>(rank)][static_cast<std::size_t>(from)];
      const auto sent = message_of(from, rank, elements);
      const auto differs = std::ranges::mismatch(received, sent).in1 - received.begin();
      CAPTURE(rank, from, differs);
      CHECK(std::ranges::equal(received, sent));
    }
  }
}

TEST_CASE("messages of one name arrive in the order of their sends, and each tag has an order of its own") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  CAPTURE(backend);
  constexpr int kMessages = 20;
  const auto seen = run_on_ranks(backend, 2, [&](Rank& self) {
    std::vector<std::vector<int>> data(2 * kMessages, std::vector<int>(4));
    std::vector<Pending> pending;
    for (int i = 0; i < kMessages; ++i) {
      for (int tag = 0; tag < 2; ++tag) {
        auto& one = data[static_cast<std::size_t>(2 * i + tag)];
        if (self.rank() == 0) {
          one = {i, tag, i * i, -i};
          pending.push_back(self.send_async(one, 1, tag, {.name = "x"}));
        }
      }
    }
    for (int tag = 1; self.rank() == 1 && tag >= 0; --tag) {
      for (int i = 0; i < kMessages; ++i)
        pending.push_back(
            self.recv_async(data[static_cast<std::size_t>(2 * i + tag)], 0, tag, {.name = "x"}));
    }
    for (const Pending& one : pending) must(one.wait());
    return data;
  });
  CHECK(seen[0] == seen[1]);
  CHECK(seen[1].back() ==
        std::vector<int>{kMessages - 1, 1, (kMessages - 1) * (kMessages - 1), 1 - kMessages});
}

TEST_CASE(
    "a receive from any rank takes each message once, in the order of its sender, and knows the sender") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const std::size_t elements = GENERATE(2U, 100'000U);
  CAPTURE(backend, elements);
  constexpr int kMessages = 6;
  const auto seen = run_on_ranks(backend, kRanks, [&](Rank& self) {
    std::vector<std::pair<int, int>> received;  // the sender and the number of the message
    std::vector<std::vector<int>> out, in;
    std::vector<Pending> sends, receives;
    for (int i = 0; i < kMessages; ++i) {
      for (int peer = 0; peer < kRanks; ++peer) {
        if (peer == self.rank()) continue;
        out.emplace_back(elements, 100 * self.rank() + i);
        sends.push_back(self.send_async(out.back(), peer, 2, {.name = "x"}));
        in.emplace_back(elements, -1);
        // The first ones are of one sender each.
        const int from = i == 0 ? peer : kAnyRank;
        receives.push_back(self.recv_async(in.back(), from, 2, {.name = "x"}));
      }
    }
    for (std::size_t i = 0; i < receives.size(); ++i) {
      must(receives[i].wait());
      if (in[i] != std::vector<int>(elements, in[i][0])) throw std::runtime_error("the message is torn");
      if (in[i][0] / 100 != receives[i].value()) throw std::runtime_error("the sender is another rank");
      received.emplace_back(in[i][0] / 100, in[i][0] % 100);
    }
    for (const Pending& one : sends) must(one.wait());
    return received;
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    CAPTURE(rank);
    auto received = seen[static_cast<std::size_t>(rank)];
    std::ranges::stable_sort(received, {}, &std::pair<int, int>::first);
    std::vector<std::pair<int, int>> wanted;
    for (int from = 0; from < kRanks; ++from) {
      for (int i = 0; from != rank && i < kMessages; ++i) wanted.emplace_back(from, i);
    }
    CHECK(received == wanted);
  }
}

TEST_CASE("messages travel beside collectives, in process sets, and past ranks that have joined") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  CAPTURE(backend);
  const auto seen = run_on_ranks(backend, kRanks, [&](Rank& self) {
    const ProcessSetId set = self.add_process_set({0, 2});
    std::vector<int> received;
    for (int step = 0; step < 5; ++step) {
      std::vector<int> sum{self.rank()}, world{10 * step}, within{10 * step + 1};
      Pending all = self.allreduce_async(sum, {.name = "sum"});
      if (self.rank() == 0) {
        must(self.send_async(world, 2, 0, {.name = "x"}).wait());
        must(self.send_async(within, 2, 0, {.name = "x", .set = set}).wait());
      }
      if (self.rank() == 2) {
        Pending in_set = self.recv_async(within, 0, 0, {.name = "x", .set = set});
        Pending in_world = self.recv_async(world, 0, 0, {.name = "x"});
        must(in_set.wait());
        must(in_world.wait());
        received.insert(received.end(), {world[0], within[0]});
      }
      must(all.wait());
      received.push_back(sum[0]);
    }
    // Rank 1 has no data left. The others still send to each other.
    if (self.rank() != 1) {
      std::vector<int> late{7};
      must((self.rank() == 0 ? self.send_async(late, 2, 0, {.name = "late"})
                             : self.recv_async(late, 0, 0, {.name = "late"}))
               .wait());
    }
    must(self.join());
    return received;
  });
  CHECK(seen[1] == std::vector<int>(5, 3));
  CHECK(seen[2] == std::vector<int>{0, 1, 3, 10, 11, 3, 20, 21, 3, 30, 31, 3, 40, 41, 3});
}

TEST_CASE("a send and a receive of other sizes or dtypes are a mismatch on both ranks, and the job goes on") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  CAPTURE(backend);
  const auto seen = run_on_ranks(backend, kRanks, [&](Rank& self) {
    std::vector<std::string> texts;
    std::vector<int> four(4), five(5);
    std::vector<float> floats(4);
    if (self.rank() == 0) {
      texts.push_back(must_fail(self.send_async(four, 2, 3, {.name = "x"}).wait()).message());
      texts.push_back(must_fail(self.send_async(four, 2, 3, {.name = "x"}).wait()).message());
    }
    if (self.rank() == 2) {
      texts.push_back(must_fail(self.recv_async(five, 0, 3, {.name = "x"}).wait()).message());
      texts.push_back(must_fail(self.recv_async(floats, 0, 3, {.name = "x"}).wait()).message());
    }
    must(self.barrier());
    return texts;
  });
  CHECK(seen[0] == seen[2]);
  REQUIRE(seen[0].size() == 2);
  CHECK_THAT(seen[0][0], Contains("Mismatched shape for 'x [0 to 2, tag 3]':") &&
                             Contains("Both ranks must pass the same shape") && !Contains("process set"));
  CHECK_THAT(seen[0][1], Contains("Mismatched dtype for 'x [0 to 2, tag 3]':"));
}

TEST_CASE("a message that waits in a process set fails when the set is removed, and others do not") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  CAPTURE(backend);
  const auto seen = run_on_ranks(backend, kRanks, [&](Rank& self) {
    const ProcessSetId set = self.add_process_set({0, 2});
    std::vector<int> before{self.rank()}, alone{1}, world{self.rank()};
    std::string text;
    if (self.rank() == 0) {
      must(self.send_async(before, 2, 0, {.name = "x", .set = set}).wait());
      Pending in_set = self.send_async(alone, 2, 0, {.name = "x", .set = set});
      Pending in_world = self.send_async(world, 2, 0, {.name = "x, process set 1"});
      must(self.remove_process_set(set));
      text = must_fail(in_set.wait()).message();
      must(in_world.wait());
    } else {
      if (self.rank() == 2) must(self.recv_async(before, 0, 0, {.name = "x", .set = set}).wait());
      must(self.remove_process_set(set));
      if (self.rank() == 2) must(self.recv_async(world, 0, 0, {.name = "x, process set 1"}).wait());
    }
    // A set of the same ranks is a new one, in which nothing waits.
    const ProcessSetId again = self.add_process_set({0, 2});
    if (self.rank() == 0) must(self.send_async(before, 2, 0, {.name = "x", .set = again}).wait());
    if (self.rank() == 2) must(self.recv_async(world, 0, 0, {.name = "x", .set = again}).wait());
    must(self.barrier());
    return text;
  });
  CHECK(seen[0] == "send/recv 'x [0 to 2, process set 1]' cannot run: process set 1 was removed");
}

TEST_CASE("a message to no rank, to this rank or past the process set is refused at once") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  CAPTURE(backend);
  const auto seen = run_on_ranks(backend, kRanks, [&](Rank& self) {
    const ProcessSetId set = self.add_process_set({0, 1});
    std::vector<std::string> texts;
    std::vector<int> x(2);
    if (self.rank() == 0) {
      texts.push_back(must_fail(self.send_async(x, 0, 0, {.name = "x"}).wait()).message());
      texts.push_back(must_fail(self.send_async(x, 9, 0, {.name = "x"}).wait()).message());
      texts.push_back(must_fail(self.recv_async(x, 2, 0, {.name = "x", .set = set}).wait()).message());
      texts.push_back(must_fail(self.recv_async(x, 1, 0, {.name = "x", .set = 77}).wait()).message());
      texts.push_back(must_fail(self.allreduce(x, {.set = 1 << 28})).message());
    }
    must(self.barrier());
    return texts;
  });
  REQUIRE(seen[0].size() == 5);
  CHECK(seen[0][0] == "send 'x': the peer is rank 0, this rank; copy the tensor instead");
  CHECK_THAT(seen[0][1], Contains("send 'x': peer rank 9 is not in process set 0, which has ranks 0-2"));
  CHECK_THAT(seen[0][2], Contains("recv 'x': peer rank 2 is not in process set"));
  CHECK_THAT(seen[0][3], Contains("recv 'x': process set 77 does not exist"));
  CHECK_THAT(seen[0][4], Contains("process set 268435456 does not exist"));
}

}  // namespace dabke::test
