// What an agent does to find out about its host and its ways to other hosts, for `dabkerun doctor`.
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

/// What is known of this host without asking another; `inherited` has the limits that ranks would have.
ExaminedMessage facts_of_this_host(const InheritedState& inherited);

class Examination {
 public:
  /// Begins to listen. That it cannot is one of facts().troubles.
  static Result<std::unique_ptr<Examination>> open(const ExamineMessage& message, const std::string& job_key,
                                                   const InheritedState& inherited);
  /// Waits for what is under way: for its wait limit at most.
  ~Examination();
  Examination(const Examination&) = delete;
  Examination& operator=(const Examination&) = delete;

  const ExaminedMessage& facts() const { return facts_; }
  /// Each on a thread; its answer comes by take(), once event() is readable. One at a time.
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
