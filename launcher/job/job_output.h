// What the ranks of a job print: onto the console, into files, and its last lines for the end of the job.
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

/// The launcher's ends of what a rank prints, and the files that keep it; without pipes its agent carries it.
struct RankOutputs {
  Fd output, error_output;
  Fd output_file, error_file;
};

class JobOutput {
 public:
  /// Shown each line that a rank writes to stderr.
  using ErrorWatcher = std::function<void(Rank speaker, std::string_view line)>;

  JobOutput(Console& console, JobLog& log, ErrorWatcher watcher);
  JobOutput(const JobOutput&) = delete;  // the streams refer to it
  JobOutput& operator=(const JobOutput&) = delete;

  void add(Rank rank, RankOutputs outputs, OutputStyle style);

  /// Some stream is open, or something waits for the console.
  bool is_waiting() const;
  TimePoint deadline() const;
  void add_poll_entries(std::vector<pollfd>& entries) const;
  /// Reads the pipes that are ready.
  void handle(const std::unordered_map<int, short>& ready);
  /// Does what is due by `now`.
  void tick(TimePoint now);

  // What an agent carries. Ranks are those of add().
  void take(Rank rank, bool is_error_output, std::string_view bytes);
  void end(Rank rank, bool is_error_output);
  /// No process of the rank is left: no more will come than its pipes hold.
  void rank_over(Rank rank);

  /// Nobody reads stdout any more.
  bool is_reader_gone() const { return console_.stdout_is_closed(); }
  /// All ranks are over, and whoever reads their output gets a limited time from now. The first call counts.
  void limit_reader(TimePoint now);
  /// The same; a second call gives no more time at all.
  void hurry_reader(TimePoint now);
  /// Output was lost, because nobody has read it.
  bool is_dropped() const { return is_dropped_; }
  /// The console cannot be written: logs why, once each.
  void take_console_error();
  /// What could not be written is lost.
  bool is_lost() const { return is_lost_; }

  std::vector<std::string> last_lines(Rank rank) const;
  /// Unless they stand just above.
  void log_last_lines(Rank rank) const;
  /// Logs which files of --output-filename lack something; whether there are any.
  bool log_lost_copies() const;

  /// The part of a terminal of this size that the rank's own text has.
  TerminalSize room_in(Rank rank, TerminalSize whole) const;
  /// The launcher's end of its stdout; -1: its agent carries it.
  int stdout_pipe(Rank rank) const;

 private:
  struct Streams {
    WorkerOutput output, error_output;
    LastLines last_lines;
    bool is_rank_over = false;
  };

  WorkerOutput& stream_of(Rank rank, bool is_error_output);
  void drop();

  Console& console_;
  JobLog& log_;
  const ErrorWatcher watcher_;
  std::map<Rank, Streams> streams_;
  RepeatedTexts texts_;
  std::optional<TimePoint> drop_at_;  // what nobody has read by then
  bool is_lost_ = false, is_dropped_ = false;
};

}  // namespace dabke::launcher
