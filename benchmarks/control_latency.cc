// Round trips of 16 bytes over the control channel: rank 0 asks each other rank and waits for all answers,
// over shared memory and over TCP in turn, so that a noisy machine disturbs both alike. Prints the median and
// the 99th percentile.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/control/link_channel.h"

using namespace dabke;

namespace {

constexpr int kRounds = 10, kTripsPerRound = 2000, kWarmUp = 200;

class Counter final : public ControlSink {
 public:
  void on_message(Rank peer, std::span<const std::byte> message) override {
    ++count;
    if (echo != nullptr) echo->send(peer, message);
  }
  void on_peer_lost(Rank, const Status&) override { lost = true; }
  ControlChannel* echo = nullptr;
  int count = 0;
  bool lost = false;
};

Result<std::unique_ptr<ControlChannel>> open(const std::string& controller, Rank rank, int size,
                                             const std::string& directory, ForkGuard& guard) {
  World world;
  world.rank = world.local_rank = rank;
  world.size = world.local_size = size;
  world.hosts.assign(static_cast<std::size_t>(size), "localhost");
  world.epoch = controller == "tcp" ? 1 : 2;
  std::vector<Rank> neighbours;
  for (Rank other = 0; other < size; ++other)
    if (other != rank && (rank == 0 || other == 0)) neighbours.push_back(other);
  Config config;
  config.controller = controller;
  DABKE_ASSIGN(auto store, open_file_store(directory));
  return LinkChannel::open(world, neighbours, config, with_prefix(store, controller), guard, Log());
}

/// The rank that answers, until both channels are closed: whoever asks waits for nobody else, so each in turn
/// is polled until rank 0 goes to the other.
void answer(std::array<std::unique_ptr<ControlChannel>, 2>& channels) {
  for (int round = 0;; ++round) {
    auto& channel = *channels[static_cast<std::size_t>(round % 2)];
    Counter counter;
    counter.echo = &channel;
    while (counter.count < kWarmUp + kTripsPerRound) {
      channel.poll(kNever, counter);
      if (counter.lost) return;
    }
  }
}

std::vector<double> ask(ControlChannel& channel, int size) {
  const std::array<std::byte, 16> message{};
  std::vector<double> micros;
  Counter counter;
  for (int trip = 0; trip < kWarmUp + kTripsPerRound && !counter.lost; ++trip) {
    const auto begun = Clock::now();
    for (Rank rank = 1; rank < size; ++rank) channel.send(rank, message);
    for (counter.count = 0; counter.count < size - 1 && !counter.lost;) channel.poll(kNever, counter);
    if (trip >= kWarmUp)
      micros.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begun).count());
  }
  return micros;
}

int measure(int size) {
  std::string directory = (std::filesystem::temp_directory_path() / "dabke-latency-XXXXXX").native();
  if (::mkdtemp(directory.data()) == nullptr) return 1;
  Rank self = 0;
  for (Rank rank = 1; rank < size && self == 0; ++rank)
    if (::fork() == 0) self = rank;
  ForkGuard guard;
  const std::array<std::string, 2> names{"tcp", "shm"};
  std::array<std::unique_ptr<ControlChannel>, 2> channels;
  for (std::size_t i = 0; i < 2; ++i) {
    auto opened = open(names[i], self, size, directory, guard);
    if (!opened.is_ok()) std::fprintf(stderr, "%s\n", opened.status().message().c_str());
    if (!opened.is_ok()) return 1;
    channels[i] = opened.take();
  }
  if (self != 0) {
    answer(channels);
    ::_exit(0);
  }
  std::array<std::vector<double>, 2> micros;
  for (std::size_t round = 0; round < 2 * kRounds; ++round) {
    const auto some = ask(*channels[round % 2], size);
    micros[round % 2].insert(micros[round % 2].end(), some.begin(), some.end());
  }
  for (auto& channel : channels) channel->close(deadline_after(5));
  while (::wait(nullptr) > 0) {
  }
  std::filesystem::remove_all(directory);
  for (std::size_t i = 0; i < 2; ++i) {
    std::ranges::sort(micros[i]);
    const std::size_t count = micros[i].size();
    if (count == 0) return 1;
    std::printf("%d ranks  %s  median %8.2f us  p99 %8.2f us\n", size, names[i].c_str(), micros[i][count / 2],
                micros[i][count * 99 / 100]);
  }
  return 0;
}

}  // namespace

int main() {
  for (const int size : {2, 4})
    if (const int failed = measure(size); failed != 0) return failed;
  return 0;
}
