// Writes dumps and takes stacks, on a thread of its own: files, the launcher's store and the application's
// stack provider may all be slow, and the negotiation must not wait for them. The thread is there before
// anybody needs it: when a job hangs for want of threads, the report is still made.
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
    std::shared_ptr<store::Store> launcher;  // where the launcher gathers dumps; null: nobody does
    Log log;
    /// How a rank's process has ended, by the deadline; empty: nobody says.
    std::function<std::optional<int>(Rank rank, TimePoint deadline)> exit_status_of = {};
  };
  explicit Reporter(Parts parts);
  ~Reporter() { stop(); }

  /// Called once, before anything is asked for.
  Status start();
  /// Does what was asked for, then ends the thread; does nothing from then on.
  void stop();

  /// What this rank is and what its recorder holds; the caller adds what it is waiting for.
  Dump begin(std::string reason, std::uint64_t incident) const;

  enum class Why {
    hang,     // the launcher gets it too, and judges who is waited for
    failure,  // of any other kind: the launcher gets to know the file
  };
  enum class Stacks {
    none,
    places,   // where the threads are, which disturbs none of them
    signals,  // from the threads themselves, which ends their sleeps: the job fails, or somebody has asked
  };
  /// Into a file in DABKE_DUMP_DIR or the temporary directory. May be called from any thread; does not wait.
  void write(Dump dump, Why why, Stacks stacks);
  /// Waits until what write() was given has been written, for this long at most.
  void flush(Duration limit);

  /// Writes, with stacks by signals, to this file; in this thread.
  Status write_to(Dump dump, const std::string& path);

  /// Calls `done` on the reporter's thread with how the rank's process has ended, as a shell gives it, or with nothing where
  /// that is not known by the deadline. False: nobody would say, and it is not called.
  bool take_exit_status(Rank rank, TimePoint deadline, std::function<void(std::optional<int>)> done);

  /// Calls `done` on the reporter's thread with where the application is, as lines (short_stack.h); sends no signal.
  void take_places(std::function<void(std::string text)> done);

  /// Whether a launcher tells what the ranks do, once for the job.
  bool is_gathered() const { return parts_.launcher != nullptr; }

 private:
  void post(std::function<void()> work);
  void loop();
  void add_stacks(Dump& dump, Stacks stacks);
  void write_now(Dump dump, Why why, Stacks stacks);
  /// Whether it was written.
  bool write_file(const Dump& dump, const std::string& path, std::size_t most_events);
  bool is_one_host() const;
  /// Nothing: no file is wanted.
  std::optional<std::string> path_of(Rank rank) const;
  /// As in their names.
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
