// The errors of a message whose other end is killed, in each phase of the message.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include <catch2/catch.hpp>

#include "tests/facts.h"
#include "tests/multiproc/rank_processes.h"
#include "tests/patience.h"

namespace dabke::test {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;

class MessageRanks {
 public:
  MessageRanks(int size, const std::string& what, int rank, const std::vector<std::string>& environment = {})
      : size_(size),
        ranks_(size, MESSAGE_WORKER, what + "-" + std::to_string(rank), with_no_dumps(environment)) {}

  void wait_for(int rank, const std::string& text) const {
    CAPTURE(rank, text, ranks_.output(rank));
    REQUIRE(ranks_.wait_for_output(rank, text));
  }
  void wait_for_others(int rank, const std::string& text) const {
    for (int other = 0; other < size_; ++other) {
      if (other != rank) wait_for(other, text);
    }
  }
  void signal(int rank, int signal) const { ranks_.signal(rank, signal); }
  std::string output(int rank) const { return ranks_.output(rank); }
  /// Waits until the process is stopped.
  bool is_stopped(int rank) const {
    const auto deadline = std::chrono::steady_clock::now() + kLongest;
    while (std::chrono::steady_clock::now() < deadline) {
      std::ifstream stat("/proc/" + std::to_string(ranks_.pid(rank)) + "/stat");
      std::string text;
      std::getline(stat, text);
      const auto end = text.rfind(')');
      if (end != std::string::npos && text.compare(end, 3, ") T") == 0) return true;
      std::this_thread::sleep_for(1ms);
    }
    return false;
  }
  /// Checks that the rank fails in time, and that its error blames one of the victims.
  void fails_by(int rank, const std::vector<int>& victims) {
    CAPTURE(rank);
    CHECK(ranks_.exit_code(rank, kPatience) == 3);
    const std::string output = ranks_.output(rank);
    CHECK_THAT(output, Contains("the first message is right"));
    CHECK_THAT(output, Contains("error peer_lost"));
    bool blames = false;
    for (const int victim : victims)
      blames = blames || output.find(": rank " + std::to_string(victim) + " on ") != std::string::npos;
    CAPTURE(output);
    CHECK(blames);
  }
  /// Waits for the rank's end, and returns true if it has printed the text.
  bool has_ended_with(int rank, const std::string& text) {
    ranks_.exit_code(rank, kPatience);
    return ranks_.output(rank).find(text) != std::string::npos;
  }
  void survivors_fail_by(const std::vector<int>& victims) {
    for (int rank = 0; rank < size_; ++rank) {
      if (std::ranges::find(victims, rank) == victims.end()) fails_by(rank, victims);
    }
    for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
      CHECK_THAT(file.path().filename().string(), !Contains("dabke"));
  }

 private:
  static std::vector<std::string> with_no_dumps(std::vector<std::string> environment) {
    environment.emplace_back("DABKE_DUMP_DIR=none");
    return environment;
  }

  int size_;
  RankProcesses ranks_;
};

/// Calls the function until the receiver has stopped before the end of the message. On a busy machine its
/// main thread may get a core only when the message is there. Returns false if that happens every time.
template <class Attempt>
bool until_in_the_middle(Attempt attempt) {
  constexpr int kMostAttempts = 20;
  for (int made = 0; made < kMostAttempts; ++made) {
    if (attempt()) return true;
  }
  return false;
}

std::vector<std::string> over(const std::string& operations) {
  return {"DABKE_CPU_OPERATIONS=" + operations};
}

}  // namespace

TEST_CASE("receives and sends that wait for a rank that is killed first end with the name of that rank") {
  const int size = GENERATE(2, 3);
  const int victim = GENERATE_COPY(0, size - 1);
  const std::string waiting_in = GENERATE("receive", "send");
  CAPTURE(size, victim, waiting_in);
  MessageRanks ranks(size, waiting_in, victim);
  ranks.wait_for(victim, "ready");
  ranks.wait_for_others(victim, "waiting");
  ranks.signal(victim, SIGKILL);
  ranks.survivors_fail_by({victim});
}

TEST_CASE("a receive from any rank ends with the name of a sender when all possible senders are killed") {
  const int size = GENERATE(2, 3);
  const int receiver = GENERATE_COPY(0, size - 1);
  CAPTURE(size, receiver);
  MessageRanks ranks(size, "receive-any", receiver);
  ranks.wait_for_others(receiver, "ready");
  ranks.wait_for(receiver, "waiting");
  std::vector<int> victims;
  for (int rank = 0; rank < size; ++rank) {
    if (rank != receiver) victims.push_back(rank);
  }
  for (const int victim : victims) ranks.signal(victim, SIGKILL);
  ranks.survivors_fail_by(victims);
}

TEST_CASE("a send to a rank that is killed while it waits for any sender ends with the name of that rank") {
  const int size = GENERATE(2, 3);
  const int receiver = GENERATE_COPY(0, size - 1);
  CAPTURE(size, receiver);
  MessageRanks ranks(size, "answer", receiver);
  ranks.wait_for_others(receiver, "ready");
  ranks.wait_for(receiver, "waiting");
  ranks.signal(receiver, SIGKILL);
  for (int rank = 0; rank < size; ++rank) {
    if (rank != receiver) ranks.signal(rank, SIGUSR1);
  }
  ranks.survivors_fail_by({receiver});
}

TEST_CASE(
    "a large message whose sender is killed in the middle of the copy ends with the name of the sender") {
  const int size = GENERATE(2, 3);
  const int sender = GENERATE(0, 1);
  const auto [operations, staged] =
      GENERATE(table<std::string, bool>({{"auto", false}, {"auto", true}, {"tcp", false}, {"gloo", false}}));
  CAPTURE(size, sender, operations, staged);
  std::vector<std::string> environment = over(operations);
  if (staged) environment.emplace_back("TEST_STAGED=1");
  const int receiver = (sender + 1) % size;
  const bool was_in_the_middle = until_in_the_middle([&] {
    MessageRanks ranks(size, "large", sender, environment);
    ranks.wait_for(sender, "waiting");
    REQUIRE(ranks.is_stopped(receiver));
    ranks.signal(sender, SIGKILL);
    ranks.signal(receiver, SIGCONT);
    if (ranks.has_ended_with(receiver, "it came whole")) return false;
    ranks.survivors_fail_by({sender});
    CHECK_THAT(ranks.output(receiver), Contains("the first element has come, and the last has not"));
    return true;
  });
  CHECK(was_in_the_middle);
}

TEST_CASE(
    "a large message whose receiver is killed in the middle of the copy ends with the name of the receiver") {
  const int size = GENERATE(2, 3);
  const int sender = GENERATE(0, 1);
  const auto [operations, staged] =
      GENERATE(table<std::string, bool>({{"auto", false}, {"auto", true}, {"tcp", false}, {"gloo", false}}));
  CAPTURE(size, sender, operations, staged);
  std::vector<std::string> environment = over(operations);
  if (staged) environment.emplace_back("TEST_STAGED=1");
  const int receiver = (sender + 1) % size;
  const bool was_in_the_middle = until_in_the_middle([&] {
    MessageRanks ranks(size, "large", sender, environment);
    ranks.wait_for(sender, "waiting");
    REQUIRE(ranks.is_stopped(receiver));
    ranks.signal(receiver, SIGKILL);
    if (ranks.has_ended_with(sender, "completed")) return false;
    ranks.survivors_fail_by({receiver});
    return true;
  });
  CHECK(was_in_the_middle);
}

TEST_CASE("a receive whose sender is killed after the send has completed is right or names the sender") {
  const int size = GENERATE(2, 3);
  CAPTURE(size);
  // In shared memory and over Gloo, the send waits until the receiver takes part.
  MessageRanks ranks(size, "half", 0, over("tcp"));
  ranks.wait_for(1, "waiting");
  ranks.wait_for(0, "ready");
  // Rank 0 decides that the message moves, and rank 1 cannot take part in it yet.
  ranks.signal(1, SIGSTOP);
  REQUIRE(ranks.is_stopped(1));
  ranks.signal(0, SIGUSR1);
  ranks.wait_for(0, "sent");
  ranks.signal(0, SIGKILL);
  ranks.signal(1, SIGCONT);
  ranks.survivors_fail_by({0});
  CHECK_THAT(ranks.output(1), !Contains("wrong data"));
}

}  // namespace dabke::test
