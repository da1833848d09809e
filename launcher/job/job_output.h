// The output of the ranks of a job: to the console, into files, and its last lines for the end of the job.
#pragma once

#include <poll.h>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "launcher/job/job_log.h"
#include "launcher/output/console.h"
#include "launcher/output/last_lines.h"
#include "launcher/output/repeated_texts.h"
#include "launcher/output/worker_output.h"
#include "runtime/base/clock.h"
#include "runtime/base/terminal.h"
#include "runtime/base/threads/owned.h"
#include "runtime/base/world.h"

namespace dabke::launcher {

/// The launcher's ends of a rank's output, and the files that keep it. Without pipes, the rank's agent
/// carries the output.
struct RankOutputs {
  Fd output, error_output;
  Fd output_file, error_file;
};

class JobOutput {
 public:
  /// Called with each line that a rank writes to stderr.
  using ErrorWatcher = std::function<void(Rank speaker, std::string_view line)>;

  JobOutput(Console& console, JobLog& log, ErrorWatcher watcher);
  JobOutput(const JobOutput&) = delete;  // the streams refer to it
  JobOutput& operator=(const JobOutput&) = delete;

  void add(Rank rank, RankOutputs outputs, OutputStyle style);
  /// Shows the lines of this rank under another name from now on. `note` is a line for its files.
  void rename(Rank rank, const std::string& name, const std::string& note);

  /// True if some stream is open, or output waits for the console.
  bool is_waiting() const;
  TimePoint deadline() const;
  void add_poll_entries(std::vector<pollfd>& entries) const;
  /// Reads the pipes that are ready.
  void handle(const std::unordered_map<int, short>& ready);
  /// Does what is due by `now`.
  void tick(TimePoint now);

  // Output that an agent carries. `rank` must be from add().
  void take(Rank rank, bool is_error_output, std::string_view bytes);
  void end(Rank rank, bool is_error_output);
  /// Called when no process of the rank is left: only the contents of its pipes are still to come.
  void rank_over(Rank rank);

  /// True if stdout no longer has a reader.
  bool is_reader_gone() const { return console_.stdout_is_closed(); }
  /// Called when all ranks are over: the reader of their output gets a limited time from now. The first call
  /// counts.
  void limit_reader(TimePoint now);
  /// The same, but a second call gives no more time at all.
  void hurry_reader(TimePoint now);
  /// True if output was lost because it had no reader.
  bool is_dropped() const { return is_dropped_; }
  /// Called when the console cannot be written: logs the reason, once each.
  void take_console_error();
  /// True if output was lost because it could not be written.
  bool is_lost() const { return is_lost_; }

  std::vector<std::string> last_lines(Rank rank) const;
  /// Logs them, unless they are visible just above.
  void log_last_lines(Rank rank) const;
  /// Logs which files of --output-filename lack something. True if there are any.
  bool log_lost_copies() const;

  /// Returns the part of a terminal of this size that the rank's own text has.
  TerminalSize room_in(Rank rank, TerminalSize whole) const;
  /// Returns the launcher's end of the rank's stdout; -1 if its agent carries it.
  int stdout_pipe(Rank rank) const;

 private:
  struct Streams {
    WorkerOutput output, error_output;
    LastLines last_lines;
    std::string name;
    bool is_rank_over = false;
  };

  WorkerOutput& stream_of(Rank rank, bool is_error_output);
  void drop();

  Console& console_;
  JobLog& log_;
  const ErrorWatcher watcher_;
  std::map<Rank, Streams> streams_;
  RepeatedTexts texts_;
  std::optional<TimePoint> drop_at_;  // output not read by then is dropped
  bool is_lost_ = false, is_dropped_ = false;
};

}  // namespace dabke::launcher
