// The meetings of an elastic job, at dabkerun's end of the store: takes arrivals from the store's thread to
// the launcher's, and writes plans and answers.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "launcher/elastic/membership.h"
#include "runtime/base/ended_rank.h"
#include "runtime/base/status.h"
#include "runtime/base/threads/owned.h"
#include "runtime/bootstrap/elastic/arrival.h"

namespace dabke::launcher {

class Meetings {
 public:
  using Set = std::function<void(const std::string& key, std::string value)>;
  /// `job` is the name of the job's part of the store. Fails if no descriptor is left.
  static Result<std::unique_ptr<Meetings>> open(std::string job);

  /// Takes a value that was set in the store, if it is an arrival. From any thread.
  void offer(const std::string& key, const std::string& value);
  /// Readable while there are arrivals.
  int event() const { return event_.get(); }
  /// The arrivals since the last call, in their order.
  std::vector<bootstrap::Arrival> take_arrivals();
  /// Writes what processes must know of the action by `set`, which sets a value in the store. A plan is there
  /// before its answers.
  void publish(const Membership::Action& action, const Set& set) const;
  /// Writes how a process has ended.
  void publish_end(bootstrap::WorkerId worker, const EndedRank& ended, const Set& set) const;
  /// Writes that a member of the epoch is lost, for those that still form it. `why` names it.
  void publish_loss(std::uint64_t epoch, const std::string& why, const Set& set) const;

 private:
  Meetings(std::string job, Fd event) : prefix_(std::move(job) + '/'), event_(std::move(event)) {}

  const std::string prefix_;
  const Fd event_;
  std::mutex mutex_;
  std::vector<bootstrap::Arrival> arrivals_;
};

}  // namespace dabke::launcher
