#include "launcher/output/worker_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fmt/format.h>

namespace dabke::launcher {
namespace {

constexpr auto kCarriageReturnWait = std::chrono::milliseconds(20);
constexpr auto kUnfinishedLineWait = std::chrono::milliseconds(200);
/// More than a dead rank can leave in its pipe: /proc/sys/fs/pipe-max-size, unless root has raised it.
constexpr std::size_t kLargestPipe = std::size_t{1} << 20;

/// Returns the time in the form of C's asctime: "Tue Mar  4 05:06:07 2025".
std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  std::array<char, 64> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%a %b %e %H:%M:%S %Y", &parts);
  return {text.data(), length};
}

const char* name_of(Console::Stream stream) { return stream == Console::Stream::out ? "stdout" : "stderr"; }

/// Gives neighbouring ranks different colours. Red is for errors. No colour is hard to see on a light or a
/// dark background.
std::string prefix_of(std::string_view name, Console::Stream stream, std::optional<int> colour) {
  const std::string prefix = fmt::format("[{}]<{}>:", name, name_of(stream));
  constexpr std::array kColours{36, 32, 35, 34, 33};
  if (!colour) return prefix;
  return fmt::format("\x1b[{}m{}\x1b[0m", kColours[static_cast<std::size_t>(*colour) % kColours.size()],
                     prefix);
}

/// The columns that write() puts before each line.
std::size_t indent_of(std::string_view name, Console::Stream stream, const OutputStyle& style) {
  const std::size_t prefix = style.prefix ? prefix_of(name, stream, std::nullopt).size() : 0;
  if (!style.timestamps) return prefix;
  return time_text().size() + std::max<std::size_t>(prefix, 1);
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return true;
}

Result<Fd> open_in(const std::string& directory, const std::string& folder, std::string_view name, int how) {
  const std::filesystem::path place = std::filesystem::path(directory) / folder;
  std::error_code error;
  std::filesystem::create_directories(place, error);
  const std::string path = place / name;
  Fd file(error ? -1 : ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0666));
  if (!file) {
    return Status(Code::invalid_argument,
                  fmt::format("--output-filename {}: cannot write {}: {}", directory, path,
                              error ? error.message() : std::generic_category().message(errno)));
  }
  return file;
}

}  // namespace

WorkerOutput::WorkerOutput(Fd pipe, int rank, Console::Stream stream, OutputStyle style)
    : pipe_(std::move(pipe)),
      stream_(stream),
      writer_(2 * rank + (stream == Console::Stream::out ? 1 : 2)),
      colour_(rank),
      style_(style),
      splitter_(style.prefix || style.timestamps ? LineSplitter::Ends::completed
                                                 : LineSplitter::Ends::as_they_are),
      unfinished_wait_(kUnfinishedLineWait) {
  set_name(std::to_string(rank));
}

void WorkerOutput::set_name(const std::string& name) {
  name_ = fmt::format("rank {}'s {}", name, name_of(stream_));
  prefix_ = style_.prefix
                ? prefix_of(name, stream_, style_.is_coloured ? std::optional(colour_) : std::nullopt)
                : "";
  indent_ = indent_of(name, stream_, style_);
}

void WorkerOutput::rename(const std::string& name, const std::string& note) {
  set_name(name);
  if (file_ && !write_all(file_.get(), note + "\n")) copy_trouble_ = std::generic_category().message(errno);
}

std::size_t WorkerOutput::read(Console& console) {
  std::array<char, 64 << 10> chunk;
  const ssize_t got = ::read(pipe_.get(), chunk.data(), chunk.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  if (got <= 0) {
    close(console);
    return 0;
  }
  take(console, {chunk.data(), static_cast<std::size_t>(got)});
  return static_cast<std::size_t>(got);
}

void WorkerOutput::take(Console& console, std::string_view bytes) {
  if (file_ && !write_all(file_.get(), bytes)) {
    copy_trouble_ = std::generic_category().message(errno);
    console.write(
        Console::Stream::error,
        fmt::format("dabkerun: cannot write the output file of {}: {}; the rest is only on the console\n",
                    name_, copy_trouble_));
    file_ = Fd();
  }
  splitter_.push(bytes, [&](std::string_view line, std::size_t shown) { print(console, line, shown); });
  if (splitter_.holds_carriage_return()) {
    release_at_ = Clock::now() + kCarriageReturnWait;
  } else if (!splitter_.holds_unshown() || !console.is_terminal(stream_)) {
    release_at_ = kNever;
  } else if (console.is_in_line_of(stream_, writer_)) {
    show(console);
  } else if (release_at_ == kNever) {
    release_at_ = Clock::now() + unfinished_wait_;
  }
}

TerminalSize WorkerOutput::room_in(TerminalSize size) const {
  size.columns = size.columns > indent_ ? size.columns - indent_ : 1;
  return size;
}

void WorkerOutput::drain(Console& console) {
  while (pipe_ && !console.is_full(stream_)) {
    const std::size_t got = read(console);
    drained_ += got;
    if (got == 0 || drained_ > kLargestPipe) close(console);
  }
}

void WorkerOutput::close(Console& console) {
  splitter_.finish([&](std::string_view line, std::size_t shown) { print(console, line, shown); });
  release_at_ = kNever;
  pipe_ = Fd();
  is_closed_ = true;
  file_ = Fd();
}

void WorkerOutput::release(Console& console) {
  if (!splitter_.holds_carriage_return()) return show(console);
  splitter_.release([&](std::string_view line, std::size_t shown) { print(console, line, shown); });
}

/// Writes a line. A line that replaces one that ended with \r is written in full if another writer has taken
/// its place.
void WorkerOutput::write(Console& console, std::string_view line, std::size_t shown) {
  const auto end = splitter_.is_redrawing() ? Console::End::redrawn : Console::End::kept;
  if (!console.is_in_line_of(stream_, writer_)) {
    if (end == Console::End::redrawn) shown = 0;
    const bool is_ended = shown > 0 && line.find_first_not_of("\r\n", shown) == std::string_view::npos;
    if (is_ended) return;  // the text in between has ended it
    if (style_.timestamps) console.write(stream_, time_text() + (prefix_.empty() ? " " : ""), writer_, end);
    console.write(stream_, prefix_, writer_, end);
  }
  console.write(stream_, line.substr(shown), writer_, end);
}

void WorkerOutput::print(Console& console, std::string_view line, std::size_t shown) {
  release_at_ = kNever;
  unfinished_wait_ = kUnfinishedLineWait;
  if (shorten_ && shown == 0 && !prefix_.empty()) {
    write(console, shorten_(line), 0);
  } else {
    write(console, line, shown);
  }
  if (watcher_) watcher_(line);
}

/// Shows an unfinished line. Two ranks with unfinished lines would end each other's every time, hence the
/// doubled wait.
void WorkerOutput::show(Console& console) {
  release_at_ = kNever;
  splitter_.show([&](std::string_view line, std::size_t shown) {
    if (shown > 0 && !console.is_in_line_of(stream_, writer_)) unfinished_wait_ *= 2;
    write(console, line, shown);
  });
}

Result<Fd> open_output_file(const std::string& directory, int rank, int size, std::string_view name) {
  const auto width = fmt::format("{}", size - 1).size();
  return open_in(directory, fmt::format("rank.{:0{}}", rank, width), name, O_TRUNC);
}

Result<Fd> open_slot_file(const std::string& directory, const std::string& slot, std::string_view name) {
  return open_in(directory, slot, name, O_APPEND);
}

}  // namespace dabke::launcher
