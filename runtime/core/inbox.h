// What other threads leave for the coordinator: operations, and what they want of it.
#pragma once

#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/diagnosis/dumps/dump.h"
#include "runtime/diagnosis/live/job_figures.h"
#include "runtime/negotiation/wire/wire.h"
#include "runtime/operation/operation.h"

namespace dabke::core {

/// A thread is about to wait for what has this name.
struct WantedHint {
  ProcessSetId process_set;
  std::string name;
};
struct AskForDumps {
  std::string reason;
};
struct Describe {
  std::string reason;
  std::shared_ptr<std::promise<diagnosis::Dump>> answer;
};
/// Where this rank's threads are.
struct ThreadPlaces {
  std::string text;
};
/// All ranks are to tell their figures.
struct GatherFigures {};
/// What has been told since.
struct TakeFigures {
  std::shared_ptr<std::promise<diagnosis::JobFigures>> answer;
};
/// How the process of a rank whose link has ended has ended itself; nothing: nobody knows.
struct ExitStatus {
  Rank rank;
  std::optional<int> status;
};
/// The timeline is to start or stop on all ranks.
struct ChangeTimeline {
  wire::TimelineChange change;
  std::uint64_t from;
};
/// The trace of the timeline that stopped on this path is made: another may start there.
struct ReleaseTimeline {
  std::string path;
};
/// A Status: the job is to end with that cause.
using Command = std::variant<OperationRef, WantedHint, Status, ChangeTimeline, ReleaseTimeline, AskForDumps,
                             Describe, ThreadPlaces, GatherFigures, TakeFigures, ExitStatus>;

/// May be used from any thread, but for what is the driver's.
class Inbox {
 public:
  /// Refused, and the command is gone, once nobody reads them any more. `waiting` becomes the number of those
  /// that nobody has taken.
  bool put(Command command, std::size_t& waiting);
  /// This rank is to leave, once what is in the inbox is done.
  void leave();
  /// Whether there is something to do.
  bool has_news();

  // ---- the driver's
  /// What has been put since; the caller's until done_with().
  std::vector<Command>& take();
  /// Whether it is time to leave, after what was taken: said once.
  bool done_with();
  /// Nobody reads it from now on; `cause`, when it is not that this rank has left.
  void close(const Status& cause = {});
  Status closed_by();
  /// Calls `use` with every operation that is still in it, taken or not, and empties it. Needs no memory.
  template <class Use>
  void give_all(Use use) {
    for (auto* const commands : {&taken_, &inbox_}) {
      for (Command& command : *commands) {
        auto* const operation = std::get_if<OperationRef>(&command);
        if (operation != nullptr && operation->get() != nullptr) use(std::move(*operation));
      }
      commands->clear();
    }
  }

 private:
  std::mutex mutex_;
  std::vector<Command> inbox_;
  bool leaves_ = false;
  bool closed_ = false;
  Status closed_by_;
  std::vector<Command> taken_;  // the driver's
  bool leaves_then_ = false;    // the driver's
};

}  // namespace dabke::core
