// An agent's examination of its host and its routes to other hosts, for `dabkerun doctor`.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>

#include "launcher/agent_protocol/protocol.h"
#include "launcher/examination/exchange.h"
#include "launcher/process/supervisor.h"
#include "runtime/base/status.h"
#include "runtime/base/threads/owned.h"
#include "runtime/links/handshake.h"

namespace dabke::launcher {

/// Returns the facts about this host that need no other host. `inherited` has the limits that ranks would
/// have.
ExaminedMessage facts_of_this_host(const InheritedState& inherited);

class Examination {
 public:
  /// Starts to listen. A failure to listen is in facts().troubles.
  static Result<std::unique_ptr<Examination>> open(const ExamineMessage& message, const std::string& job_key,
                                                   const InheritedState& inherited);
  /// Waits for the current task, at most for its wait limit.
  ~Examination();
  Examination(const Examination&) = delete;
  Examination& operator=(const Examination&) = delete;

  const ExaminedMessage& facts() const { return facts_; }
  /// Each starts a task on a thread. take() returns its answer once event() is readable. One task at a time.
  Status begin(ReachMessage message);
  Status begin(MeasureMessage message);

  using Answer = std::variant<ReachedMessage, MeasuredMessage>;
  int event() const { return event_.get(); }
  std::optional<Answer> take();

 private:
  Examination() = default;
  template <class Work>
  Status start(Work work);

  links::Handshake::Self self_;
  ExaminedMessage facts_;
  std::unique_ptr<ExchangeListener> listener_;
  Fd event_;
  std::mutex mutex_;
  std::optional<Answer> answer_;  // guarded by mutex_
  std::jthread thread_;
};

}  // namespace dabke::launcher
