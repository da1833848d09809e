#include "launcher/verdict/hang_verdict.h"

#include <signal.h>
#include <unistd.h>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "runtime/base/pair_sets.h"
#include "runtime/base/text/wait_description.h"
#include "tests/child_process.h"

namespace dabke::test {
using namespace launcher;
namespace {

using Catch::Matchers::Contains;

diagnosis::Dump rank(Rank number, std::vector<diagnosis::Dump::Pending> pending,
                     std::vector<std::string> submitted) {
  diagnosis::Dump dump;
  dump.rank = number;
  dump.host = "ada";
  dump.pid = 100 + number;
  dump.last_order = 41;
  dump.pending = std::move(pending);
  dump.process_sets = {{0, {0, 1, 2}}, {1, {0, 1}}};
  for (const std::string& name : submitted)
    dump.events.push_back({"submitted", 30, name, "allreduce", 0, ++dump.submitted, 1, 4});
  return dump;
}

diagnosis::Dump::Pending waiting(const std::string& name, double age, ProcessSetId set = 0) {
  return {name, "allreduce", set, "allreduce (sum) of float32 [1]", age, "announced"};
}

std::map<Rank, diagnosis::Dump> by_rank(std::vector<diagnosis::Dump> dumps) {
  std::map<Rank, diagnosis::Dump> out;
  for (diagnosis::Dump& dump : dumps) out[dump.rank] = dump;
  return out;
}

}  // namespace

TEST_CASE("the verdict names who is waited for, what it does instead, its stack and where the ways parted") {
  std::vector<diagnosis::Dump> dumps = {rank(0, {waiting("x", 60)}, {"a", "b", "x"}), rank(1, {}, {"a", "b"}),
                                        rank(2, {waiting("x", 59)}, {"a", "b", "x"})};
  dumps[1].stacks = {
      {101, "train", {"(running)", "load() at data.cc:7 (train)", "main at train.cc:3 (train)"}}};
  const auto lines = hang_verdict(by_rank(dumps), 3, {});
  CHECK(lines == std::vector<std::string>{
                     "allreduce 'x' waits for rank 1: ranks 0,2 have been waiting for 60.0 s",
                     "rank 1 on host ada (pid 101): it has not made this call and has no other call pending; "
                     "its last call was allreduce 'b', 30.0 s ago; it is at",
                     "  data.cc:7 in load()", "  train.cc:3 in main", "  (running)",
                     "what to do: find out what keeps it there (a slow data loader, a branch that only some "
                     "ranks take). If ranks have unequal numbers of steps, let each call join at its end"});
}

TEST_CASE("ranks in one place are told in one line, and the verdict is short however many there are") {
  std::vector<diagnosis::Dump> dumps = {rank(0, {waiting("x", 60)}, {"a", "x"})};
  dumps[0].process_sets = {};
  for (Rank number = 1; number < 40; ++number) {
    dumps.push_back(rank(number, {}, {"a"}));
    dumps.back().process_sets = {};
    const int line = number < 20 ? 7 : number;  // half of them are in one place, the others each in another
    dumps.back().stacks = {{1, "train", {fmt::format("load() at data.cc:{} (train)", line)}}};
  }
  const auto lines = hang_verdict(by_rank(dumps), 40, {});
  REQUIRE(lines.size() == 6);
  CHECK_THAT(lines[1], Contains("each of ranks 1-19: it has not made this call") &&
                           Contains("; at data.cc:7 in load()"));
  CHECK_THAT(lines[2], Contains("rank 20 on host ada") && Contains("; at data.cc:20 in load()"));
  CHECK(lines[4] == "and 18 ranks that do something else");
  CHECK_THAT(hang_verdict(by_rank({rank(0, {waiting("x", 60)}, {"x"})}), 4,
                          {{1, "is gone"}, {2, "is gone"}, {3, "is running"}})
                 .at(1),
             Contains("ranks 1-2 have sent no report: each process is gone"));
}

TEST_CASE("two operations of one name are told apart by their number") {
  diagnosis::Dump one = rank(0, {}, {"x"}), other = rank(1, {}, {"x"});
  one.events.push_back({"started", 61, "x", "allreduce", 0, 42, 1, 0});
  other.events.push_back({"started", 60, "x", "allreduce", 0, 43, 1, 0});
  const auto lines = hang_verdict(by_rank({one, other}), 2, {});
  CHECK(lines.at(1) == "rank 0 is inside allreduce 'x' (order 42)");
  CHECK(lines.back() == kDifferentOperations);
}

TEST_CASE("of a process set that is added among its members only these are waited for") {
  const auto add = [](const std::string& ranks) {
    const std::string collective = "add_process_set_among_members";
    return diagnosis::Dump::Pending{collective, collective, 0, collective + " of ranks " + ranks,
                                    60,         "announced"};
  };
  const auto lines =
      hang_verdict(by_rank({rank(0, {add("0, 1")}, {}), rank(1, {}, {}), rank(2, {}, {})}), 3, {});
  REQUIRE(!lines.empty());
  CHECK(lines[0].find("waits for rank 1: rank 0 has been waiting") != std::string::npos);
}

TEST_CASE("the verdict on ranks that call different operations shows both") {
  const auto lines =
      hang_verdict(by_rank({rank(0, {waiting("x", 60)}, {"a", "x"}), rank(1, {waiting("y", 58)}, {"a", "y"}),
                            rank(2, {waiting("x", 60)}, {"a", "x"})}),
                   3, {});
  REQUIRE(lines.size() == 5);
  CHECK(lines[0] == "allreduce 'x' waits for rank 1: ranks 0,2 have been waiting for 60.0 s");
  CHECK_THAT(lines[1], Contains("waits for allreduce 'y' instead, for 58.0 s"));
  CHECK_THAT(lines[2], Contains("rank 0 called allreduce 'x', rank 1 called allreduce 'y'"));
  CHECK_THAT(lines[3], Contains("make the same calls on all ranks"));
  CHECK(lines[4] == "1 more operation is stuck");
}

TEST_CASE("the first divergence names the lower rank first, whichever of the two calls has waited longer") {
  const auto lines = hang_verdict(
      by_rank({rank(0, {waiting("x", 58)}, {"a", "x"}), rank(1, {waiting("y", 60)}, {"a", "y"})}), 2, {});
  CHECK_THAT(lines.at(0), Contains("allreduce 'y' waits for rank"));
  CHECK_THAT(lines.at(2), Contains("rank 0 called allreduce 'x', rank 1 called allreduce 'y'"));
}

TEST_CASE("the messages of two ranks are not compared") {
  std::vector<diagnosis::Dump> dumps = {rank(0, {waiting("x", 60)}, {"a", "x"}), rank(1, {}, {"b"})};
  dumps[1].events.front().process_set = pair_of(0, 1);
  for (const std::string& line : hang_verdict(by_rank(dumps), 2, {})) CHECK_THAT(line, !Contains("differ"));
}

TEST_CASE("what ranks called in earlier epochs counts neither as their last call nor as a difference") {
  std::vector<diagnosis::Dump> dumps = {rank(0, {waiting("x", 60)}, {"x"}), rank(1, {}, {})};
  for (diagnosis::Dump& dump : dumps) {
    // A rank's number may be another one in each epoch, and a new process has no earlier ones.
    const std::string before = dump.rank == 0 ? "a" : "b";
    dump.events.insert(dump.events.begin(), {{"submitted", 90, before, "allreduce", 0, 1, 1, 4},
                                             {"started", 90, before, "allreduce", 0, 1, 1, 4},
                                             {"epoch", 80, "rank 0 of 2", "", 0, 2, 0, 0}});
  }
  const auto lines = hang_verdict(by_rank(dumps), 2, {});
  REQUIRE(lines.size() > 1);
  CHECK_THAT(lines[1], Contains("has no other call pending; it has made no call lately"));
  for (const std::string& line : lines) CHECK_THAT(line, !Contains("differ") && !Contains("'b'"));
}

TEST_CASE("the verdict waits for the ranks of the process set alone, and not for those that have joined") {
  auto lines =
      hang_verdict(by_rank({rank(0, {waiting("x", 60, 1)}, {"x"}), rank(1, {}, {}), rank(2, {}, {})}), 3, {});
  CHECK(lines.at(0) == "allreduce 'x' of process set 1 waits for rank 1: rank 0 has been waiting for 60.0 s");
  diagnosis::Dump joined = rank(1, {}, {});
  joined.pending = {{"join", "join", 0, "join", 50, "announced"}};
  lines = hang_verdict(by_rank({rank(0, {waiting("x", 60)}, {"x"}), joined, rank(2, {}, {})}), 3, {});
  CHECK(lines.at(0) == "allreduce 'x' waits for rank 2: rank 0 has been waiting for 60.0 s");
}

TEST_CASE("a barrier and a tensor named barrier are two things to wait for") {
  diagnosis::Dump barrier = rank(0, {}, {"barrier"});
  barrier.pending = {{"barrier", "barrier", 0, "barrier", 50, "announced"}};
  const auto lines = hang_verdict(by_rank({barrier, rank(1, {waiting("barrier", 60)}, {"barrier"})}), 2, {});
  CHECK(lines.at(0) == "allreduce 'barrier' waits for ranks 0,2: rank 1 has been waiting for 60.0 s");
  CHECK_THAT(lines.at(1), Contains("waits for barrier 'barrier' instead, for 50.0 s"));
}

TEST_CASE("a group of which members are missing is told of, on some ranks or on all") {
  diagnosis::Dump part = rank(1, {}, {"x"});
  part.pending = {{"g", "allreduce", 0, "2 of 3 members of group 'g': 'a', 'b'", 50, "incomplete"}};
  auto lines = hang_verdict(by_rank({rank(0, {waiting("g", 60)}, {"g"}), part}), 2, {});
  CHECK(lines.at(0) == "allreduce 'g' waits for ranks 1-2: rank 0 has been waiting for 60.0 s");
  CHECK_THAT(lines.at(1),
             Contains("waits for the rest of a group (2 of 3 members of group 'g': 'a', 'b') instead"));
  diagnosis::Dump same = part;
  same.rank = 0;
  lines = hang_verdict(by_rank({same, part}), 2, {});
  CHECK(lines == std::vector<std::string>{"ranks 0-1 have submitted 2 of 3 members of group 'g': 'a', 'b'; "
                                          "the group runs when every rank has submitted all of it"});
}

TEST_CASE("a rank without a dump is described by its process") {
  const auto lines =
      hang_verdict(by_rank({rank(0, {waiting("x", 60)}, {"x"}), rank(2, {waiting("x", 60)}, {"x"})}), 3,
                   {{1, "is stopped"}});
  CHECK(lines ==
        std::vector<std::string>{"allreduce 'x' waits for rank 1: ranks 0,2 have been waiting for 60.0 s",
                                 "rank 1 does not answer: its process is stopped"});
}

TEST_CASE("where everything is agreed on, the verdict tells who is inside which operation") {
  diagnosis::Dump inside = rank(0, {}, {"x"});
  inside.events.push_back({"started", 61, "x", "allreduce", 0, 42, 1, 0});
  diagnosis::Dump done = rank(1, {}, {"x"});
  done.events.push_back({"started", 61, "x", "allreduce", 0, 42, 1, 0});
  done.events.push_back({"finished", 60, "x", "allreduce", 0, 42, 1, 4});
  const auto lines = hang_verdict(by_rank({inside, done}), 2, {});
  CHECK(lines == std::vector<std::string>{"allreduce 'x' has been running on rank 0 for 61.0 s",
                                          "rank 1 is in no operation", "rank 0 is inside allreduce 'x'"});
  CHECK(hang_verdict(by_rank({done}), 1, {}) ==
        std::vector<std::string>{"no operation waits for a rank now"});
  CHECK(
      hang_verdict(by_rank({done}), 3, {{0, "waits in the kernel (futex_do_wait)"}}) ==
      std::vector<std::string>{"no operation waits for a rank, by the reports of 1 of 3 ranks",
                               "rank 0 has sent no report: its process waits in the kernel (futex_do_wait)"});
}

TEST_CASE("of ranks in different operations the verdict says that the network is not to blame") {
  diagnosis::Dump one = rank(0, {}, {"x"});
  one.events.push_back({"started", 61, "x", "allreduce", 0, 42, 1, 0});
  diagnosis::Dump other = rank(1, {}, {"x"});
  other.events.push_back({"started", 60, "y", "allreduce", 0, 43, 1, 0});
  CHECK(hang_verdict(by_rank({one, other}), 2, {}).back() == kDifferentOperations);
}

TEST_CASE("the verdict on a join names who has not come to it, and what it is inside") {
  diagnosis::Dump joined = rank(0, {}, {});
  joined.pending = {{"join", "join", 0, "join", 50, "announced"}};
  joined.process_sets = {};  // then the set has all ranks of the job
  diagnosis::Dump inside = rank(1, {}, {"x"});
  inside.process_sets = {};
  inside.events.push_back({"started", 61, "x", "allreduce", 0, 42, 1, 0});
  const auto lines = hang_verdict(by_rank({joined, inside}), 2, {});
  REQUIRE(lines.size() >= 2);
  CHECK(lines[0] == "join waits for rank 1: rank 0 has been waiting for 50.0 s");
  CHECK_THAT(lines[1], Contains("it is inside allreduce 'x', started 61.0 s ago and not finished"));
}

TEST_CASE("a process is stopped, runs, waits in the kernel, or is gone") {
  ChildProcess child([]() -> int {
    for (;;) ::pause();
  });
  child.kill(SIGSTOP);
  child.wait_until_stopped();
  CHECK_THAT(process_state(child.pid()), Contains("is stopped"));
  child.kill();
  child.wait();
  CHECK(process_state(child.pid()) == "is gone");
  CHECK(process_state(::getpid()) == "is running");
}

}  // namespace dabke::test
