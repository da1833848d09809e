#include "timeline_viewer/trace_events.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runtime/base/text/counted.h"
#include "timeline_viewer/gz_file.h"

namespace dabke::viewer {
namespace {

/// An event that is longer or deeper counts as broken.
constexpr std::size_t kMostEvent = 1 << 20;
constexpr int kDeepest = 64;
constexpr std::size_t kMostMember = 64 << 20;
/// After so many wrong beginnings in a row, the rest of the line is skipped. So no file takes unlimited time.
constexpr int kMostTries = 8;
/// Up to this value a double holds microseconds exactly. For the uptime of a computer it
/// even holds nanoseconds.
constexpr double kMostUs = 9e15;

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

/// Parses the JSON of an event. Values that lie deeper than those of `args` are ignored.
class EventParser final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit EventParser(TraceEvent& event) : event_(event) {}

  bool null() override { return true; }
  /// A Boolean argument counts as a number: 1 for true.
  bool boolean(bool value) override {
    return depth_ == 2 && in_arguments_ ? number(value ? 1 : 0, value) : true;
  }
  bool number_integer(number_integer_t value) override { return number(static_cast<double>(value), value); }
  bool number_unsigned(number_unsigned_t value) override { return number(static_cast<double>(value), value); }
  bool number_float(number_float_t value, const string_t& text) override { return number(value, text); }
  bool string(string_t& value) override {
    if (depth_ == 2 && in_arguments_) {
      event_.arguments.emplace_back(std::move(key_), EventValue{.text = std::move(value)});
    } else if (depth_ == 1) {
      take(value);
    }
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    if (++depth_ == 2) in_arguments_ = key_ == "args";
    return true;
  }
  bool key(string_t& key) override {
    key_ = std::move(key);
    return true;
  }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override {
    if (++depth_ == 2) in_arguments_ = false;
    return true;
  }
  bool end_array() override { return leave(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  bool leave() {
    --depth_;
    return true;
  }
  void take(std::string& value) {
    if (key_ == "name") {
      event_.name = std::move(value);
    } else if (key_ == "ph") {
      event_.phase = value.size() == 1 ? value[0] : '\0';
    } else if (key_ == "cat") {
      event_.category = std::move(value);
    } else if (key_ == "pid") {
      event_.process = std::move(value);
    } else if (key_ == "tid") {
      event_.thread = std::move(value);
    }
  }
  bool number(double value, const auto& written) {
    if (depth_ == 2 && in_arguments_) {
      event_.arguments.emplace_back(std::move(key_), EventValue{.number = value, .is_number = true});
    } else if (depth_ == 1) {
      if (key_ == "ts") {
        event_.start_us = value;
      } else if (key_ == "dur") {
        event_.duration_us = value;
      } else if (key_ == "pid") {
        event_.process = fmt::format("{}", written);
      } else if (key_ == "tid") {
        event_.thread = fmt::format("{}", written);
      }
    }
    return true;
  }

  TraceEvent& event_;
  std::string key_;
  int depth_ = 0;
  bool in_arguments_ = false;
};

bool is_time(const std::optional<double>& us) {
  return !us || (std::isfinite(*us) && std::abs(*us) <= kMostUs);
}

bool parse_event(std::string_view text, TraceEvent& event) {
  event = {};
  EventParser parser(event);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &parser)) return false;
  return is_time(event.start_us) && is_time(event.duration_us) && event.duration_us.value_or(0) >= 0;
}

class Reader {
 public:
  Reader(const std::string& path, GzFile file, EventSink& sink,
         const std::function<void(std::uint64_t)>& on_progress)
      : path_(path), file_(std::move(file)), sink_(sink), on_progress_(on_progress) {}

  Result<TraceDamage> run() {
    if (at(0) == '\xef' && at(1) == '\xbb' && at(2) == '\xbf') next_ += 3;
    const int first = next_letter();
    if (first == '[') {
      ++next_;
      read_array();
    } else if (first == '{') {
      ++next_;
      read_members();
    } else if (first < 0 && error_.is_ok()) {
      return Status(Code::invalid_argument, fmt::format("'{}' is empty", path_));
    } else if (error_.is_ok()) {
      return Status(Code::invalid_argument,
                    fmt::format("'{}' is not a trace: it begins with neither '{{' nor '['", path_));
    }
    if (!error_.is_ok()) return error_;
    return damage_;
  }

 private:
  enum class Scan { whole, broken, too_long, end };

  /// Returns the character at `offset` from the next one; negative at the end.
  int at(std::size_t offset) {
    while (next_ + offset >= buffer_.size()) {
      if (!fill()) return -1;
    }
    return static_cast<unsigned char>(buffer_[next_ + offset]);
  }

  bool fill() {
    if (is_over_) return false;
    buffer_.erase(0, next_);
    consumed_ += std::exchange(next_, 0);
    const std::size_t kept = buffer_.size();
    buffer_.resize(kept + kGzChunk);
    const int got = ::gzread(file_.get(), buffer_.data() + kept, kGzChunk);
    buffer_.resize(kept + static_cast<std::size_t>(std::max(0, got)));
    if (on_progress_) on_progress_(static_cast<std::uint64_t>(::gzoffset(file_.get())));
    if (got > 0) return true;
    is_over_ = true;
    if (got < 0) read_failed();
    return false;
  }

  /// A compressed file that was cut still yields all bytes before the cut, so that is not an error.
  void read_failed() {
    int code = Z_OK;
    const char* const why = ::gzerror(file_.get(), &code);
    if (code == Z_BUF_ERROR) return;
    error_ = code == Z_ERRNO
                 ? system_error(fmt::format("cannot read '{}'", path_), errno)
                 : Status(Code::invalid_argument, fmt::format("cannot read '{}': {}", path_, why));
  }

  /// Returns the next character that is neither space nor comma, without consuming it.
  int next_letter() {
    for (;; ++next_) {
      const int c = at(0);
      if (c < 0 || (!is_space(static_cast<char>(c)) && c != ',')) return c;
    }
  }

  void read_members() {
    for (;;) {
      const int c = next_letter();
      if (c == '}') return;
      if (c != '"') return cut_or_broken(c);
      std::string key;
      if (scan(kMostEvent) != Scan::whole) return cut_or_broken(c);
      key.assign(buffer_, next_ + 1, length_ - 2);
      next_ += length_;
      if (next_letter() != ':') return cut_or_broken(c);
      ++next_;
      const int value = next_letter();
      if (key == "traceEvents" && value == '[') {
        ++next_;
        if (!read_array()) return;
        continue;
      }
      if (scan(kMostMember) != Scan::whole) return cut_or_broken(value);
      sink_.member(key, std::string_view(buffer_).substr(next_, length_));
      next_ += length_;
    }
  }

  void cut_or_broken(int letter) {
    if (letter < 0 || is_over_) {
      damage_.is_cut = true;
    } else {
      count_broken();
    }
  }

  /// Returns false if the array has no end.
  bool read_array() {
    int tries = 0;
    TraceEvent event;
    for (;;) {
      const int c = next_letter();
      if (c == ']') {
        ++next_;
        return true;
      }
      if (c < 0) {
        damage_.is_cut = true;
        return false;
      }
      const Scan found = c == '{' ? scan(kMostEvent) : Scan::broken;
      if (found == Scan::end) {
        damage_.is_cut = true;
        return false;
      }
      if (found == Scan::whole && parse_event(std::string_view(buffer_).substr(next_, length_), event)) {
        next_ += length_;
        tries = 0;
        ++damage_.events;
        sink_.event(event);
        continue;
      }
      if (tries == 0) count_broken();
      if (found == Scan::too_long) next_ += length_;
      if (++tries > kMostTries || found == Scan::too_long) skip_line();
      skip_to_event();
    }
  }

  void count_broken() {
    if (damage_.broken++ == 0) damage_.first_broken_at = consumed_ + next_;
  }

  /// Finds the end of the value that begins at next_, and sets length_.
  Scan scan(std::size_t most) {
    int depth = 0;
    bool in_string = false;
    for (std::size_t i = 0;; ++i) {
      if (i >= most) {
        length_ = i;
        return Scan::too_long;
      }
      const int c = at(i);
      if (c < 0) return Scan::end;
      if (in_string) {
        if (c == '\\') {
          ++i;
        } else if (c == '"') {
          in_string = false;
        } else if (c == '\n') {
          return Scan::broken;
        }
        if (in_string || depth > 0) continue;
      } else if (c == '"') {
        in_string = true;
        continue;
      } else if (c == '{' || c == '[') {
        if (++depth > kDeepest) return Scan::broken;
        continue;
      } else if (c == '}' || c == ']') {
        --depth;
        if (depth < 0) {
          length_ = i;
          return Scan::whole;
        }
      } else if (depth > 0 || (c != ',' && !is_space(static_cast<char>(c)))) {
        continue;
      } else {
        length_ = i;
        return Scan::whole;
      }
      if (depth > 0) continue;
      length_ = i + 1;
      return Scan::whole;
    }
  }

  void skip_line() {
    for (int c = at(0); c >= 0 && c != '\n'; c = at(0))
      next_ = std::min(buffer_.size(), buffer_.find('\n', next_));
  }

  /// Moves to the next '{' that may begin an event: after a comma, a bracket or the end of a line.
  void skip_to_event() {
    char before = at(0) == '\n' ? '\n' : ' ';
    for (++next_;; ++next_) {
      const int c = at(0);
      if (c < 0 || (c == '{' && (before == ',' || before == '[' || before == '\n'))) return;
      if (c == '\n' || !is_space(static_cast<char>(c))) before = static_cast<char>(c);
    }
  }

  const std::string& path_;
  const GzFile file_;
  EventSink& sink_;
  const std::function<void(std::uint64_t)>& on_progress_;
  std::string buffer_;
  std::size_t next_ = 0;
  std::size_t length_ = 0;
  std::uint64_t consumed_ = 0;
  bool is_over_ = false;
  TraceDamage damage_;
  Status error_;
};

}  // namespace

const EventValue* TraceEvent::argument(std::string_view wanted) const {
  for (const auto& [key, value] : arguments) {
    if (key == wanted) return &value;
  }
  return nullptr;
}

std::string_view TraceEvent::text(std::string_view wanted) const {
  const EventValue* const value = argument(wanted);
  return value == nullptr ? std::string_view() : value->text;
}

std::optional<double> TraceEvent::number(std::string_view wanted) const {
  const EventValue* const value = argument(wanted);
  if (value == nullptr || !value->is_number || !std::isfinite(value->number)) return {};
  return value->number;
}

std::vector<std::string> TraceDamage::notes(const std::string& path) const {
  std::vector<std::string> notes;
  if (broken > 0) {
    notes.push_back(fmt::format("'{}' is damaged in {}, the first at byte {}; the rest was read", path,
                                counted(broken, "place"), first_broken_at));
  }
  if (is_cut) notes.push_back(fmt::format("'{}' has no end: its writer was killed, or it was cut off", path));
  return notes;
}

Result<TraceDamage> read_events(const std::string& path, EventSink& sink,
                                const std::function<void(std::uint64_t)>& on_progress) {
  DABKE_ASSIGN_OR_RETURN(GzFile file, open_gz(path));
  return Reader(path, std::move(file), sink, on_progress).run();
}

}  // namespace dabke::viewer
