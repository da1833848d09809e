#include "launcher/job/job_output.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "launcher/verdict/outcome.h"
#include "runtime/base/text/counted.h"

namespace dabke::launcher {
namespace {

using namespace std::chrono_literals;

/// The time limits after a signal to end the job, once its ranks have ended: for the reader of their output,
/// and then for dabkerun's own messages.
constexpr auto kReaderTime = 3s;
constexpr auto kLastWordsTime = 1s;
/// The last lines of a job's output that count as still visible.
constexpr std::size_t kLinesInView = 30;

OutputStyle style_on(int fd, OutputStyle style) {
  style.is_coloured = style.is_coloured && ::isatty(fd) == 1;
  return style;
}

}  // namespace

JobOutput::JobOutput(Console& console, JobLog& log, ErrorWatcher watcher)
    : console_(console), log_(log), watcher_(std::move(watcher)) {}

void JobOutput::add(Rank rank, RankOutputs outputs, OutputStyle style) {
  const auto [place, is_new] = streams_.emplace(
      rank, Streams{.output = WorkerOutput(std::move(outputs.output), rank, Console::Stream::out,
                                           style_on(STDOUT_FILENO, style)),
                    .error_output = WorkerOutput(std::move(outputs.error_output), rank,
                                                 Console::Stream::error, style_on(STDERR_FILENO, style)),
                    .last_lines = {},
                    .name = std::to_string(rank)});
  Streams& streams = place->second;
  streams.output.copy_to(std::move(outputs.output_file));
  streams.error_output.copy_to(std::move(outputs.error_file));
  LastLines& last_lines = streams.last_lines;
  streams.output.watch(
      [this, &last_lines](std::string_view line) { last_lines.push(line, log_.count_line()); });
  streams.error_output.watch([this, &last_lines, rank](std::string_view line) {
    last_lines.push(line, log_.count_line());
    watcher_(rank, line);
  });
  streams.error_output.shorten_by(
      [this, rank](std::string_view line) { return texts_.shown(line, rank, Clock::now()); });
}

void JobOutput::rename(Rank rank, const std::string& name, const std::string& note) {
  Streams& streams = streams_.at(rank);
  streams.name = name;
  streams.output.rename(name, note);
  streams.error_output.rename(name, note);
}

bool JobOutput::is_waiting() const {
  return !console_.is_drained() || std::ranges::any_of(streams_, [](const auto& each) {
    return each.second.output.is_open() || each.second.error_output.is_open();
  });
}

TimePoint JobOutput::deadline() const {
  TimePoint next = drop_at_.value_or(kNever);
  for (const auto& [rank, streams] : streams_)
    next = std::min({next, streams.output.release_at(), streams.error_output.release_at()});
  return next;
}

void JobOutput::add_poll_entries(std::vector<pollfd>& entries) const {
  for (const auto& [rank, streams] : streams_) {
    for (const WorkerOutput* output : {&streams.output, &streams.error_output}) {
      // The rank then waits in write() until the console has caught up, as it would without a launcher.
      if (output->pipe() >= 0 && !console_.is_full(output->stream()))
        entries.push_back({output->pipe(), POLLIN, 0});
    }
  }
}

void JobOutput::handle(const std::unordered_map<int, short>& ready) {
  for (auto& [rank, streams] : streams_) {
    for (WorkerOutput* output : {&streams.output, &streams.error_output}) {
      if (output->pipe() >= 0 && ready.contains(output->pipe())) output->read(console_);
    }
  }
}

void JobOutput::tick(TimePoint now) {
  for (auto& [rank, streams] : streams_) {
    for (WorkerOutput* output : {&streams.output, &streams.error_output}) {
      if (output->release_at() <= now) output->release(console_);
      if (streams.is_rank_over) output->drain(console_);
    }
  }
  if (drop_at_ && now >= *drop_at_) drop();
}

void JobOutput::take(Rank rank, bool is_error_output, std::string_view bytes) {
  WorkerOutput& stream = stream_of(rank, is_error_output);
  if (stream.is_open()) stream.take(console_, bytes);
}

void JobOutput::end(Rank rank, bool is_error_output) {
  WorkerOutput& stream = stream_of(rank, is_error_output);
  if (stream.is_open()) stream.close(console_);
}

void JobOutput::rank_over(Rank rank) {
  Streams& streams = streams_.at(rank);
  streams.is_rank_over = true;
  for (WorkerOutput* output : {&streams.output, &streams.error_output}) {
    if (output->pipe() < 0) output->close(console_);
  }
}

void JobOutput::limit_reader(TimePoint now) {
  if (!drop_at_) drop_at_ = now + kReaderTime;
}

void JobOutput::hurry_reader(TimePoint now) { drop_at_ = now + (drop_at_ ? 0s : kReaderTime); }

void JobOutput::take_console_error() {
  const std::string error = console_.take_error();
  if (error.empty()) return;
  is_lost_ = true;
  log_.log(error);
}

std::vector<std::string> JobOutput::last_lines(Rank rank) const { return streams_.at(rank).last_lines.all(); }

void JobOutput::log_last_lines(Rank rank) const {
  const Streams& streams = streams_.at(rank);
  const LastLines& last_lines = streams.last_lines;
  const std::vector<std::string> lines = last_lines.all();
  const bool are_in_view =
      streams_.size() == 1 || (console_.is_one() && log_.lines() - last_lines.begin_at() <= kLinesInView);
  if (lines.empty() || are_in_view) return;
  log_.log(
      fmt::format("the last {} that rank {} wrote:", lines.size() == 1 ? "line" : "lines", streams.name));
  for (const std::string& line : lines) log_.log("| " + line);
}

bool JobOutput::log_lost_copies() const {
  std::map<std::string, std::vector<int>> ranks_by_trouble;
  for (const auto& [rank, streams] : streams_) {
    for (const WorkerOutput* const output : {&streams.output, &streams.error_output}) {
      if (output->copy_trouble().empty()) continue;
      auto& ranks = ranks_by_trouble[output->copy_trouble()];
      if (ranks.empty() || ranks.back() != rank) ranks.push_back(rank);
    }
  }
  for (const auto& [trouble, ranks] : ranks_by_trouble)
    log_.log(fmt::format("--output-filename: the files of {} {} are incomplete: {}",
                         ranks.size() == 1 ? "rank" : "ranks", rank_list(ranks), trouble));
  return !ranks_by_trouble.empty();
}

TerminalSize JobOutput::room_in(Rank rank, TerminalSize whole) const {
  return streams_.at(rank).output.room_in(whole);
}

int JobOutput::stdout_pipe(Rank rank) const { return streams_.at(rank).output.pipe(); }

WorkerOutput& JobOutput::stream_of(Rank rank, bool is_error_output) {
  Streams& streams = streams_.at(rank);
  return is_error_output ? streams.error_output : streams.output;
}

/// Drops output that has no reader. The copies in files get all of it.
void JobOutput::drop() {
  std::size_t lost = console_.abandon();
  for (auto& [rank, streams] : streams_) {
    for (WorkerOutput* output : {&streams.output, &streams.error_output}) {
      if (output->pipe() < 0) continue;  // its agent sends the rest, and the end
      output->drain(console_);
      output->close(console_);
      lost += console_.abandon();
    }
  }
  drop_at_ = Clock::now() + kLastWordsTime;
  if (lost == 0 || is_dropped_) return;
  is_dropped_ = true;
  log_.log(fmt::format("{} of output lost, because nothing read it", counted(lost, "byte")));
}

}  // namespace dabke::launcher
