#include "runtime/base/log.h"

#include <unistd.h>

#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <sstream>

namespace dabke {

struct Log::Backend {
  std::shared_ptr<spdlog::logger> logger;
};

namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::trace: return spdlog::level::trace;
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warning: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
    case LogLevel::fatal: return spdlog::level::critical;
  }
  return spdlog::level::warn;
}

std::shared_ptr<spdlog::logger> make_logger(spdlog::sink_ptr sink, const Log::Options& options) {
  auto logger = std::make_shared<spdlog::logger>("dabke", std::move(sink));
  const std::string who = options.rank < 0 ? "dabke" : fmt::format("dabke rank {}", options.rank);
  logger->set_pattern(options.hide_time ? fmt::format("[{} %l] %v", who)
                                        : fmt::format("[%Y-%m-%d %H:%M:%S.%e {} %l] %v", who));
  logger->set_level(to_spdlog(options.level));
  logger->flush_on(spdlog::level::trace);
  return logger;
}

class StringSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit StringSink(std::shared_ptr<std::string> out) : out_(std::move(out)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    out_->append(line.data(), line.size());
  }
  void flush_() override {}

 private:
  std::shared_ptr<std::string> out_;
};

}  // namespace

Log::Log() = default;

Log::Log(const Options& options)
    : backend_(std::make_shared<Backend>(
          Backend{make_logger(std::make_shared<spdlog::sinks::stderr_sink_mt>(), options)})) {}

Log Log::to_string(std::shared_ptr<std::string> sink, const Options& options) {
  Log log;
  log.backend_ =
      std::make_shared<Backend>(Backend{make_logger(std::make_shared<StringSink>(std::move(sink)), options)});
  return log;
}

bool Log::enabled(LogLevel level) const { return backend_ && backend_->logger->should_log(to_spdlog(level)); }

void Log::write(LogLevel level, std::string_view text) const {
  if (backend_) backend_->logger->log(to_spdlog(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace dabke
