// Writes dumps and takes stacks on a thread of its own. Files, the launcher's store and the application's
// stack provider may all be slow, and the negotiation must not wait for them. The thread is started early, so
// that a report can be made even when no thread can be started any more.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "runtime/base/log.h"
#include "runtime/base/settings/config.h"
#include "runtime/base/world.h"
#include "runtime/diagnosis/dumps/dump.h"
#include "runtime/diagnosis/flight_recorder.h"
#include "runtime/diagnosis/stacks/native_stacks.h"
#include "runtime/diagnosis/stacks/stack_source.h"
#include "runtime/store/store.h"

namespace dabke::diagnosis {

class Reporter {
 public:
  struct Parts {
    const World& world;
    const Config& config;
    const FlightRecorder& recorder;
    std::shared_ptr<StackSource> stacks;
    std::shared_ptr<store::Store> launcher;  // where the launcher gathers dumps; null without a launcher
    Log log;
    /// Returns the exit status of a rank's process; nothing if it is not known by the deadline. Empty if
    /// no launcher reports it.
    std::function<std::optional<int>(Rank rank, TimePoint deadline)> exit_status_of = {};
  };
  explicit Reporter(Parts parts);
  ~Reporter() { stop(); }

  /// Call it once, before all other functions.
  Status start();
  /// Does the work that was requested, then ends the thread. Later requests are ignored.
  void stop();

  /// Returns a dump with the facts about this rank and the events of its recorder. The caller
  /// adds what it waits for.
  Dump begin(std::string reason, std::uint64_t incident) const;

  enum class Why {
    hang,     // the launcher gets the dump too, and finds the ranks that are waited for
    failure,  // any other failure; the launcher gets only the path of the file
  };
  enum class Stacks {
    none,
    places,  // the positions of the threads, which disturbs none of them
    // Taken by the threads themselves, which ends their sleeps. So only if the job fails or the user asks.
    signals,
  };
  /// Writes the dump to a file in DABKE_DUMP_DIR or the temporary directory. Does not wait.
  /// Any thread may call it.
  void write(Dump dump, Why why, Stacks stacks);
  /// Waits until all dumps that were given to write() are written, for at most `limit`.
  void flush(Duration limit);

  /// Writes the dump with stacks to this file, on the calling thread. The stacks are taken by signals.
  Status write_to(Dump dump, const std::string& path);

  /// Calls `done` on the reporter's thread with the exit status of the rank's process, as a shell reports it.
  /// `done` gets nothing if the status is not known by the deadline. Returns false, without a call, if
  /// nothing reports the status.
  bool take_exit_status(Rank rank, TimePoint deadline, std::function<void(std::optional<int>)> done);

  /// Calls `done` on the reporter's thread with the position of the application, as lines
  /// (short_stack.h). Sends no signal.
  void take_places(std::function<void(std::string text)> done);

  /// True if a launcher reports for the whole job what the ranks do.
  bool is_gathered() const { return parts_.launcher != nullptr; }

 private:
  void post(std::function<void()> work);
  void loop();
  void add_stacks(Dump& dump, Stacks stacks);
  void write_now(Dump dump, Why why, Stacks stacks);
  /// Returns true if the file was written.
  bool write_file(const Dump& dump, const std::string& path, std::size_t most_events);
  bool is_one_host() const;
  /// Returns nothing if no file is wanted.
  std::optional<std::string> path_of(Rank rank) const;
  /// The job as in the names of dumps.
  std::string job_of_dumps() const;

  const Parts parts_;
  NativeStacks native_;
  std::mutex native_mutex_;
  std::string recent_places_;
  TimePoint recent_places_at_{};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool busy_ = false;
  bool stopping_ = false;
  std::jthread thread_;
};

}  // namespace dabke::diagnosis
