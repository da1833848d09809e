// Elastic training in C++: a state in memory that survives a change of the ranks, and the loop that goes on
// with it.
//
//   dabke::elastic::State state;
//   state.add(weights);   // a std::vector of numbers
//   state.add(step);      // a number
//   dabke::elastic::run(state, [&] {
//     while (step < 1000) {
//       ...
//       ++step;
//       state.commit();
//     }
//   });
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <dabke/dabke.hpp>

namespace dabke::elastic {

/// The hosts of the job change, and no rank is lost. run() handles it.
class HostsUpdated : public std::exception {
 public:
  const char* what() const noexcept override { return "the hosts of the job have changed"; }
};

/// True for an error after which an elastic job goes on: a rank was lost, or the job has failed with it.
inline bool is_job_failure(const Error& error) {
  switch (error.status()) {
    case DABKE_ERROR_PEER_LOST:
    case DABKE_ERROR_ABORTED:
    case DABKE_ERROR_SHUT_DOWN:
    case DABKE_ERROR_STALLED:
    case DABKE_ERROR_TRANSPORT:
    case DABKE_ERROR_TIMEOUT: return true;
    default: return false;
  }
}

/// The memory that makes up the state of a training, and its newest commit. Every rank adds memory of the
/// same sizes in the same order, before run(). The memory must stay where it is.
class State {
 public:
  void add(std::span<std::byte> memory) { parts_.push_back(memory); }
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void add(T& value) { add(std::as_writable_bytes(std::span(&value, 1))); }
  template <class T, class A>
  requires std::is_trivially_copyable_v<T>
  void add(std::vector<T, A>& values) { add(std::as_writable_bytes(std::span(values))); }

  /// Copies the state, so that training goes on from here after a failure. The last commit stays until the
  /// copy is complete. Throws HostsUpdated if hosts come or go: every rank at the same commit.
  void commit() {
    save();
    if (announced_changes() != 0) throw HostsUpdated();
  }
  /// Commits and throws HostsUpdated if hosts come or go. Otherwise does nothing.
  void check_host_updates() {
    if (announced_changes() != 0) commit();
  }
  /// Sets the state of the newest commit. Does nothing before the first one.
  void restore() {
    const std::byte* from = committed_.data();
    marked_ = detail::marked_steps;  // a loss in the next sync() repeats no step
    if (!number_) return;
    for (const std::span<std::byte> part : parts_) {
      std::memcpy(part.data(), from, part.size());
      from += part.size();
    }
  }
  /// Counts the commits of the job; nothing before the first one.
  std::optional<std::uint64_t> newest_commit() const { return number_; }

  /// The steps since the last commit, sync() or restore(); 0 if the program marks no steps. `is_in_a_step`:
  /// the step in which a rank was lost counts, too.
  std::uint64_t lost_steps(bool is_in_a_step = true) const {
    const std::uint64_t marked = detail::marked_steps;
    return marked == 0 ? 0 : marked - marked_ + (is_in_a_step ? 1 : 0);
  }

  /// Gives every rank the newest commit of the epoch, from all ranks that hold it; in an epoch without one,
  /// the present state of rank 0. Every rank calls it, as run() does. After an error this rank has its last
  /// commit.
  void sync(const Epoch& epoch) {
    if (!epoch.newest_commit && epoch.rank == 0) copy_to(next_);
    const std::vector<int> holders = epoch.newest_commit ? epoch.holders : std::vector<int>{0};
    const bool holds = std::ranges::find(holders, epoch.rank) != holders.end();
    if (holds && epoch.newest_commit) next_ = committed_;
    next_.resize(size_bytes());
    if (static_cast<int>(holders.size()) < epoch.size) transfer(epoch, holders, holds);
    std::swap(committed_, next_);
    number_ = epoch.newest_commit.value_or(0);
    marked_ = detail::marked_steps;
    if (!holds) restore();
  }

 private:
  std::size_t size_bytes() const {
    std::size_t bytes = 0;
    for (const std::span<std::byte> part : parts_) bytes += part.size();
    return bytes;
  }
  void copy_to(std::vector<std::byte>& copy) const {
    copy.clear();
    for (const std::span<std::byte> part : parts_) copy.insert(copy.end(), part.begin(), part.end());
  }
  void save() {
    copy_to(next_);
    std::swap(committed_, next_);
    number_ = number_ ? *number_ + 1 : 0;
    marked_ = detail::marked_steps;
  }

  /// Each holder sends a part, at the same time: to those who lack it alone, if these are not more than the
  /// holders. Otherwise the parts are broadcasts, because a sender has one link for all receivers.
  void transfer(const Epoch& epoch, const std::vector<int>& holders, bool holds) {
    const auto bytes = [](std::span<std::byte> part) {
      return Tensor(part.data(), DLDataType{kDLUInt, 8, 1}, {static_cast<std::int64_t>(part.size())});
    };
    std::vector<std::size_t> cuts;
    for (std::size_t i = 0; i <= holders.size(); ++i) cuts.push_back(next_.size() * i / holders.size());
    const auto part_of = [&](std::size_t i) {
      return std::span(next_).subspan(cuts[i], cuts[i + 1] - cuts[i]);
    };
    if (static_cast<std::size_t>(epoch.size) > 2 * holders.size()) {
      std::vector<Handle> sent;
      for (std::size_t i = 0; i < holders.size(); ++i)
        sent.push_back(broadcast_async("elastic.state." + std::to_string(i), bytes(part_of(i)),
                                       {.root_rank = holders[i]}));
      for (const Handle& each : sent) each.wait();
      return;
    }
    std::vector<std::byte> given;
    std::vector<std::int64_t> splits(static_cast<std::size_t>(epoch.size), 0);
    if (holds) {
      const auto mine =
          part_of(static_cast<std::size_t>(std::ranges::find(holders, epoch.rank) - holders.begin()));
      for (int rank = 0; rank < epoch.size; ++rank) {
        if (std::ranges::find(holders, rank) != holders.end()) continue;
        splits[static_cast<std::size_t>(rank)] = static_cast<std::int64_t>(mine.size());
        given.insert(given.end(), mine.begin(), mine.end());
      }
    }
    std::span<std::byte> received;
    if (!holds) received = next_;
    alltoall_into("elastic.state", bytes(given), bytes(received), {.splits = splits});
  }

  std::vector<std::span<std::byte>> parts_;
  std::vector<std::byte> committed_, next_;
  std::optional<std::uint64_t> number_;
  std::uint64_t marked_ = 0;  // the steps that this process had marked when it last had a commit's state
};

/// Runs `train` with the newest state on every rank, and again after each change of the ranks, until it
/// returns. `on_reset` is called after each change, before `train`. In a job that is not elastic, `train`
/// runs once. Returns false if this process has left the job in good order: it then ends with status 0. Other
/// exceptions of `train` are passed on.
template <class Train>
bool run(State& state, Train&& train, const std::function<void()>& on_reset = {}) {
  Epoch epoch = current_epoch();
  for (bool is_first = true;; is_first = false) {
    bool is_lost = false, is_training = false;
    try {
      state.sync(epoch);
      if (!is_first && on_reset) on_reset();
      is_training = true;
      train();
      return true;
    } catch (const HostsUpdated&) {
    } catch (const Error& error) {
      if (!is_job_failure(error) || !is_elastic()) throw;
      is_lost = true;
    }
    epoch = next_epoch(state.newest_commit(), is_lost ? state.lost_steps(is_training) : 0);
    if (epoch.left) return false;
    if (is_lost) state.restore();
  }
}

}  // namespace dabke::elastic
