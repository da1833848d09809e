// Groups: tensors that are reduced as one, whatever the members are.
#include <deque>

#include <catch2/catch.hpp>

#include "tests/in_process/job.h"
#include "tests/patience.h"

namespace dabke::test {

using Catch::Matchers::Contains;

TEST_CASE("groups of 1 to 1,000 scalars are reduced, whatever their names") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  constexpr std::size_t kSizes[] = {1, 2, 3, 17, 1000};
  const auto seen = run_on_ranks(backend, 2, [&](Rank& self) {
    std::vector<float> sums;
    for (const std::size_t size : kSizes) {
      std::vector<float> values(size, static_cast<float>(self.rank() + 1));
      std::vector<Argument> scalars;
      for (std::size_t i = 0; i < size; ++i) {
        scalars.push_back({{&values[i], DType::f32, {}, Shape{}}, {}, std::to_string(i)});
      }
      must(self.run(CollectiveKind::allreduce, std::move(scalars), {.name = "scalars"}));
      sums.push_back(values.front());
      sums.push_back(values.back());
    }
    return sums;
  });
  for (const auto& sums : seen) CHECK(sums == std::vector<float>(2 * std::size(kSizes), 3));
}

namespace {

/// Returns how the stall shutdown ends the waits of two ranks that have both submitted before it.
template <class Function, class IsRight>
auto ends_by_stall(const Setup& backend, Function function, IsRight is_right) {
  return test::with_enough_time(
      0.5,
      [&](double seconds) {
        Config config = quiet_config();
        config.stall_check_time = 0.4 * seconds;
        config.stall_shutdown_time = seconds;
        return run_on_ranks(backend, 2, config, function);
      },
      is_right);
}

/// Members of group "g", of one number each.
struct Members {
  explicit Members(Rank& rank) : self(rank) {}
  Pending submit(const std::string& name, std::uint32_t group_size, ProcessSetId set = kWorldSet) {
    data.push_back({1});
    return self.allreduce_async(data.back(),
                                {.name = name, .set = set, .group = "g", .group_size = group_size});
  }
  Rank& self;
  std::deque<std::vector<float>> data;
};

}  // namespace

TEST_CASE(
    "a group that is incomplete on every rank is ended by the stall shutdown, with what has come of it") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const std::string text =
      "group 'g' of process set 0 is incomplete: ranks 0, 1 have submitted 2 of 3 members: 'a', 'b' (no rank "
      "has submitted the other 1)";
  const auto seen = ends_by_stall(
      backend,
      [](Rank& self) {
        Members members(self);
        const std::vector<Pending> pending = {members.submit("b", 3), members.submit("a", 3)};
        return std::vector{pending[0].wait(), pending[1].wait()};
      },
      [&](const auto& ends) { return ends[0][0].message().find(text) != std::string::npos; });
  for (const auto& ends : seen) {
    for (const Status& status : ends) {
      CHECK(status.code() == Code::stalled);
      CHECK_THAT(status.message(), Contains(text));
    }
  }
}

TEST_CASE("a group that is incomplete on one rank stalls with what that rank has of it") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const int whole = GENERATE(0, 1);
  const auto seen = ends_by_stall(
      backend,
      [&](Rank& self) {
        Members members(self);
        std::vector<Pending> pending = {members.submit("a", 3), members.submit("b", 3)};
        if (self.rank() == whole) pending.push_back(members.submit("c", 3));
        for (const Pending& one : pending) (void)one.wait();
        return pending.front().wait();
      },
      [](const auto& ends) {
        const std::string& text = ends[0].message();
        return text.find("2 of 3 members") != text.npos && text.find("no other call pending") == text.npos;
      });
  for (const Status& status : seen) {
    CHECK(status.code() == Code::stalled);
    CHECK_THAT(status.message(), Contains("2 of 3 members") && Contains("'a', 'b'") && Contains("group 'g'"));
    CHECK_THAT(status.message(), !Contains("no other call pending"));
  }
}

TEST_CASE(
    "ranks that give a group another size or other members get a mismatch of both, and the next group runs") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const bool sizes = GENERATE(true, false);
  const auto seen = run_on_ranks(backend, 2, [&](Rank& self) {
    Members members(self);
    std::vector<Status> ends;
    const bool first = self.rank() == 0;
    std::vector<Pending> pending;
    if (sizes) {
      for (const char* name : {"a", "b"}) pending.push_back(members.submit(name, first ? 3 : 2));
    } else {
      for (const char* name : {"a", first ? "b" : "c"}) pending.push_back(members.submit(name, 3));
      if (!first) pending.push_back(members.submit("d", 3));
    }
    for (const Pending& one : pending) ends.push_back(one.wait());
    if (first) ends.push_back(members.submit("late", 3).wait());  // third member of a group that has failed
    pending.clear();
    for (const char* name : {"a", "b"}) pending.push_back(members.submit(name, 2));
    for (const Pending& one : pending) must(one.wait());
    must(self.barrier());
    return std::pair(ends, members.data.back());
  });
  for (const auto& [ends, next] : seen) {
    for (const Status& status : ends) {
      CHECK(status.code() == Code::mismatch);
      CHECK_THAT(status.message(),
                 Contains(sizes ? "Mismatched group size for group 'g' in process set 0"
                                : "Mismatched group members for group 'g' in process set 0"));
      CHECK_THAT(status.message(), Contains("rank 0 on node has submitted 2 of 3 members: 'a', 'b'"));
      CHECK_THAT(status.message(),
                 Contains(sizes ? "all 2 members: 'a', 'b'" : "all 3 members: 'a', 'c', 'd'"));
    }
    CHECK(next == std::vector<float>{2});
  }
  CHECK(seen[0].first.size() == 3);
}

TEST_CASE(
    "a group that is incomplete when its rank joins, leaves or loses the process set fails there at once") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const auto seen = run_on_ranks(backend, 2, [&](Rank& self) {
    std::vector<Status> ends;
    Members members(self);
    const Pending joins = members.submit("a", 2);
    (void)must(self.join());
    ends.push_back(joins.wait());
    const ProcessSetId set = self.add_process_set({self.size() - 1});
    if (self.rank() == self.size() - 1) {
      const Pending removed = members.submit("a", 2, set);
      must(self.remove_process_set(set));
      ends.push_back(removed.wait());
    } else {
      must(self.remove_process_set(set));
    }
    const Pending left = members.submit("a", 2);
    must(self.barrier());  // otherwise the other rank could leave first, and the call would be refused
    self.close();
    ends.push_back(left.wait());
    return ends;
  });
  for (const auto& ends : seen) {
    CHECK(ends.front().code() == Code::invalid_argument);
    CHECK_THAT(ends.front().message(),
               Contains("1 of 2 members of group 'g': 'a'") && Contains("dabke_join"));
    CHECK(ends.back().code() == Code::shut_down);
    CHECK_THAT(ends.back().message(), Contains("1 of 2 members of group 'g': 'a'"));
  }
  REQUIRE(seen[1].size() == 3);
  CHECK(seen[1][1].code() == Code::unknown_process_set);
}

}  // namespace dabke::test
