// The commands that other threads leave for the coordinator: operations, and other requests.
#pragma once

#include <cstdint>
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

/// A thread is about to wait for the tensor or group of this name.
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
/// The places where this rank's threads are.
struct ThreadPlaces {
  std::uint64_t number = 0;  // of the StackAction
  std::string text;
};
/// Makes all ranks send their figures.
struct GatherFigures {};
/// Asks for the figures that have come so far.
struct TakeFigures {
  std::shared_ptr<std::promise<diagnosis::JobFigures>> answer;
};
/// The exit status of the process of a rank whose link has ended; nothing if it is unknown.
struct ExitStatus {
  Rank rank;
  std::optional<int> status;
};
/// The timeline is to start or stop on all ranks.
struct ChangeTimeline {
  wire::TimelineChange change;
  std::uint64_t from;
};
/// The trace of the timeline that stopped on this path is made, so another timeline may start there.
struct ReleaseTimeline {
  std::string path;
};
/// So many changes of the job's hosts have been announced; on the root.
struct ChangesAnnounced {
  std::uint64_t changes;
};
/// A Status as a command: the job is to end with that cause.
using Command =
    std::variant<OperationRef, WantedHint, Status, ChangeTimeline, ReleaseTimeline, AskForDumps, Describe,
                 ThreadPlaces, GatherFigures, TakeFigures, ExitStatus, ChangesAnnounced>;

/// May be used from any thread, except the functions of the driver.
class Inbox {
 public:
  /// Adds a command. Once the inbox is closed, drops the command and returns false. `waiting` becomes the
  /// number of commands that the driver has not taken.
  bool put(Command command, std::size_t& waiting);
  /// Makes this rank leave once the commands in the inbox are done.
  void leave();
  /// True if there is something to do.
  bool has_news();

  // ---- by the driver
  /// Returns the commands that have come since the last take(). The caller may use them until done_with().
  std::vector<Command>& take();
  /// Drops the commands that were taken. Returns true, once, if it is time to leave after them.
  bool done_with();
  /// Closes the inbox, which nobody reads from now on. `cause` is an error, unless this rank has left.
  void close(const Status& cause = {});
  Status closed_by();
  /// Calls `use` with every operation in the inbox, taken or not, and empties the inbox. Needs no memory.
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
  std::vector<Command> taken_;  // used by the driver only
  bool leaves_then_ = false;    // used by the driver only
};

}  // namespace dabke::core
