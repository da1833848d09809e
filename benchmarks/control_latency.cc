// Round trips of 16 bytes over the control channel: rank 0 sends to each other rank, and waits for
// all answers. The channels take turns, so a noisy machine disturbs all of them equally. Prints
// the median and the 99th percentile.
//
//   control_latency                 shared memory and TCP, with 2 and with 4 ranks
//   mpirun -np 4 control_latency    MPI as well, with the ranks that mpirun
//   starts; this may need DABKE_MODULE_PATH
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/bootstrap/bootstrap.h"
#include "runtime/control/link_channel.h"
#include "runtime/control/mpi_channel.h"

using namespace dabke;

namespace {

constexpr int kRounds = 10, kTripsPerRound = 2000, kWarmUp = 200;

class Counter final : public control::ControlSink {
 public:
  void on_message(Rank peer, std::span<const std::byte> message) override {
    ++count;
    if (echo != nullptr) echo->send(peer, message);
  }
  void on_peer_lost(Rank, const Status&) override { lost = true; }
  control::ControlChannel* echo = nullptr;
  int count = 0;
  bool lost = false;
};

using Channels = std::vector<std::unique_ptr<control::ControlChannel>>;

/// The place of this process in its job, and the store of the job.
struct Place {
  World world;
  std::shared_ptr<store::Store> store;
  modules::MpiSession* mpi = nullptr;
};

Result<Channels> open(const std::vector<std::string>& names, Place& place, ForkGuard& guard) {
  std::vector<Rank> neighbours;
  for (Rank other = 0; other < place.world.size; ++other)
    if (other != place.world.rank && (place.world.rank == 0 || other == 0)) neighbours.push_back(other);
  Channels channels;
  for (const std::string& name : names) {
    Config config;
    config.controller = name == "mpi" ? Controller::mpi : name == "shm" ? Controller::shm : Controller::tcp;
    ++place.world.epoch;  // otherwise the links would find those of the channel before
    const auto store = store::with_prefix(place.store, name);
    auto opened =
        name == "mpi"
            ? control::MpiChannel::open(place.mpi, place.world, neighbours, config, store, guard, Log())
            : control::LinkChannel::open(place.world, neighbours, config, store, guard, Log());
    DABKE_RETURN_IF_ERROR(opened.status());
    channels.push_back(opened.take());
  }
  return channels;
}

/// Runs a rank that answers, until the channels are closed. Only one channel is in use at a time, so it polls
/// each channel until rank 0 goes on to the next one.
void answer(Channels& channels) {
  for (std::size_t round = 0; round < kRounds * channels.size(); ++round) {
    auto& channel = *channels[round % channels.size()];
    Counter counter;
    counter.echo = &channel;
    while (counter.count < kWarmUp + kTripsPerRound) {
      control::poll(channel, kNever, counter);
      if (counter.lost) return;
    }
  }
}

std::vector<double> ask(control::ControlChannel& channel, int size) {
  const std::array<std::byte, 16> message{};
  std::vector<double> micros;
  Counter counter;
  for (int trip = 0; trip < kWarmUp + kTripsPerRound && !counter.lost; ++trip) {
    const auto begun = Clock::now();
    for (Rank rank = 1; rank < size; ++rank) channel.send(rank, message);
    for (counter.count = 0; counter.count < size - 1 && !counter.lost;)
      control::poll(channel, kNever, counter);
    if (trip >= kWarmUp)
      micros.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begun).count());
  }
  return micros;
}

int measure(const std::vector<std::string>& names, Place place) {
  ForkGuard guard;
  auto opened = open(names, place, guard);
  if (!opened.is_ok()) std::fprintf(stderr, "%s\n", opened.status().message().c_str());
  if (!opened.is_ok()) return 1;
  Channels channels = opened.take();
  std::vector<std::vector<double>> micros(channels.size());
  if (place.world.rank != 0) answer(channels);
  for (std::size_t round = 0; place.world.rank == 0 && round < kRounds * channels.size(); ++round) {
    auto& all = micros[round % channels.size()];
    const auto some = ask(*channels[round % channels.size()], place.world.size);
    all.insert(all.end(), some.begin(), some.end());
  }
  for (auto& channel : channels) channel->close(deadline_after(5));
  for (std::size_t i = 0; place.world.rank == 0 && i < channels.size(); ++i) {
    std::ranges::sort(micros[i]);
    const std::size_t count = micros[i].size();
    if (count == 0) return 1;
    std::printf("%d ranks  %s  median %8.2f us  p99 %8.2f us\n", place.world.size, names[i].c_str(),
                micros[i][count / 2], micros[i][count * 99 / 100]);
  }
  return 0;
}

int measure_forked(int size) {
  std::string directory = (std::filesystem::temp_directory_path() / "dabke-latency-XXXXXX").native();
  if (::mkdtemp(directory.data()) == nullptr) return 1;
  Rank self = 0;
  for (Rank rank = 1; rank < size && self == 0; ++rank)
    if (::fork() == 0) self = rank;
  Place place;
  place.world.rank = place.world.local_rank = self;
  place.world.size = place.world.local_size = size;
  place.world.hosts.assign(static_cast<std::size_t>(size), "localhost");
  auto store = store::open_file_store(directory);
  if (store.is_ok()) place.store = store.take();
  const int failed = place.store ? measure({"tcp", "shm"}, std::move(place)) : 1;
  if (self != 0) ::_exit(failed);
  while (::wait(nullptr) > 0) {
  }
  std::filesystem::remove_all(directory);
  return failed;
}

}  // namespace

int main() {
  const auto config = config_from_environment(process_environment());
  auto joined = config.is_ok() ? bootstrap::bootstrap(*config, process_environment()) : config.status();
  if (!joined.is_ok()) {
    std::fprintf(stderr, "%s\n", joined.status().message().c_str());
    return 1;
  }
  if (modules::MpiSession* const mpi = joined->mpi) {
    (void)mpi->job_begins();
    const int failed = measure({"tcp", "shm", "mpi"}, {joined->world, joined->store, mpi});
    if (failed == 0) mpi->job_ended_well();
    return failed;
  }
  for (const int size : {2, 4})
    if (const int failed = measure_forked(size); failed != 0) return failed;
  return 0;
}
