// One output stream of one rank: a pipe or its agent's frames in, prefixed lines and a file out.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "launcher/output/console.h"
#include "launcher/output/line_splitter.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/base/terminal.h"
#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

struct OutputStyle {
  bool prefix = true;
  bool timestamps = false;   // without both, bytes come out exactly as the rank has written them
  bool is_coloured = false;  // the prefix, by rank
};

class WorkerOutput {
 public:
  /// Without a pipe, the rank's agent carries the stream: take() and close().
  WorkerOutput(Fd pipe, int rank, Console::Stream stream, OutputStyle style);

  /// Stores every byte in `file`, too, unchanged and without prefixes.
  void copy_to(Fd file) { file_ = std::move(file); }

  /// From now on lines are those of `name`: the number of a rank, or the slot of a process that has none yet.
  /// `note` is a line for the file alone.
  void rename(const std::string& name, const std::string& note);

  /// Returns why the file lacks a part of the output; empty if it has all.
  const std::string& copy_trouble() const { return copy_trouble_; }

  Console::Stream stream() const { return stream_; }
  /// -1: there is none.
  int pipe() const { return pipe_.get(); }
  bool is_open() const { return !is_closed_; }
  /// Returns the part of a terminal of this size that the rank's own text has.
  TerminalSize room_in(TerminalSize size) const;
  /// Passes every line to `watcher`, too.
  void watch(std::function<void(std::string_view line)> watcher) { watcher_ = std::move(watcher); }

  /// With a prefix, shows the result of `shorten` for each line; watchers and copies get the whole line.
  void shorten_by(std::function<std::string(std::string_view line)> shorten) {
    shorten_ = std::move(shorten);
  }

  /// Reads once, and returns the number of bytes. At end of file, writes the last line and closes the pipe.
  std::size_t read(Console& console);
  void take(Console& console, std::string_view bytes);
  /// Reads the rest and closes, as far as the console has room. Called when all processes of the rank have
  /// ended. A process that escaped may hold the pipe open or go on writing; it is not waited for. Does
  /// nothing without a pipe.
  void drain(Console& console);
  void close(Console& console);

  /// A line that ends with \r waits a little for a \n, and on a terminal an unfinished line waits for its
  /// end. Returns the end of this wait; kNever if there is none.
  TimePoint release_at() const { return release_at_; }
  void release(Console& console);

 private:
  void set_name(const std::string& name);
  void write(Console& console, std::string_view line, std::size_t shown);
  void print(Console& console, std::string_view line, std::size_t shown);
  void show(Console& console);

  Fd pipe_;
  bool is_closed_ = false;
  Fd file_;
  Console::Stream stream_;
  Console::Writer writer_;
  int colour_;
  OutputStyle style_;
  std::string name_;        // "rank 0's stdout"
  std::string prefix_;      // "[0]<stdout>:", or empty
  std::size_t indent_ = 0;  // columns before each line
  std::string copy_trouble_;
  LineSplitter splitter_;
  TimePoint release_at_ = kNever;
  Duration unfinished_wait_;  // with an unfinished line
  std::size_t drained_ = 0;   // bytes
  std::function<void(std::string_view)> watcher_;
  std::function<std::string(std::string_view)> shorten_;
};

/// Opens DIR/rank.<rank>/<name>, where the rank is padded with zeros to the width of the last; makes the
/// directories.
Result<Fd> open_output_file(const std::string& directory, int rank, int size, std::string_view name);
/// Opens DIR/<slot>/<name> to append to it; makes the directories.
Result<Fd> open_slot_file(const std::string& directory, const std::string& slot, std::string_view name);

}  // namespace dabke::launcher
