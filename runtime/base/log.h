// The log of one rank: lines on stderr that begin with level and rank. Passed in, never global.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace dabke {

enum class LogLevel { trace, debug, info, warning, error, fatal };

class Log {
 public:
  struct Options {
    LogLevel level = LogLevel::warning;
    bool hide_time = false;
    int rank = -1;  // -1: not known yet, and left out
  };

  /// A log that drops everything.
  Log();
  explicit Log(const Options& options);
  /// A log that hands each line (without newline) to `sink`; for tests.
  static Log to_string(std::shared_ptr<std::string> sink, const Options& options);

  bool enabled(LogLevel level) const;
  void write(LogLevel level, std::string_view text) const;

  template <class... Args>
  void trace(fmt::format_string<Args...> format, Args&&... args) const {
    log(LogLevel::trace, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) const {
    log(LogLevel::debug, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    log(LogLevel::info, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void warning(fmt::format_string<Args...> format, Args&&... args) const {
    log(LogLevel::warning, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) const {
    log(LogLevel::error, format, std::forward<Args>(args)...);
  }

 private:
  template <class... Args>
  void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) const {
    if (enabled(level)) write(level, fmt::format(format, std::forward<Args>(args)...));
  }

  struct Backend;  // keeps spdlog out of every file that logs
  std::shared_ptr<Backend> backend_;
};

}  // namespace dabke
