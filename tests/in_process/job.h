// Jobs whose ranks are threads of the test, each with a Runtime of its own, over a shared store.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tests/in_process/droppable_channel.h"
#include "tests/in_process/rank.h"
#include "tests/in_process/setups.h"
#include "tests/run_ranks.h"

namespace dabke::test {

/// The configuration that tests start from. It keeps quiet about expected failures.
Config quiet_config();

class Job {
 public:
  /// Opens all ranks. Throws if one cannot be opened.
  Job(const Setup& setup, int size, const Config& config = quiet_config());
  /// The same, with a configuration for each rank.
  Job(const Setup& setup, int size, const std::function<Config(int rank)>& config_of);
  /// Shuts all ranks down at the same time.
  ~Job();

  int size() const { return static_cast<int>(ranks_.size()); }
  Rank& rank(int index) { return *ranks_[static_cast<std::size_t>(index)]; }

  /// Runs `function(Rank&)` on a thread for each rank, and returns the results by rank. If one throws, the
  /// job is aborted, so that the others end too, and the exception is rethrown here. If the ranks have not
  /// ended after three minutes (more under sanitizers), prints what each rank waits for, and fails.
  template <class Function>
  auto run(Function&& function) {
    const auto on_rank = [&](int index) { return function(rank(index)); };
    return collect_from_ranks(size(), on_rank, [this](const auto& call) { run_threads(call); });
  }

  /// Cuts a rank's control channel as if its process had been killed.
  void cut(int rank) { knives_[static_cast<std::size_t>(rank)]->cut(); }

 private:
  void open(const Setup& setup, int size, const std::function<Config(int rank)>& config_of);
  void run_threads(const std::function<void(int index)>& function);
  std::string describe();

  std::vector<std::shared_ptr<DroppableChannel::Knife>> knives_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

/// Runs one function in a job of its own.
template <class Function>
auto run_on_ranks(const Setup& setup, int size, Function&& function) {
  return Job(setup, size).run(std::forward<Function>(function));
}
template <class Function>
auto run_on_ranks(const Setup& setup, int size, const Config& config, Function&& function) {
  return Job(setup, size, config).run(std::forward<Function>(function));
}

}  // namespace dabke::test
