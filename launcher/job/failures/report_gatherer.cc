#include "launcher/job/failures/report_gatherer.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

namespace dabke::launcher {

Result<std::unique_ptr<ReportGatherer>> ReportGatherer::open() {
  Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return Status(Code::transport, fmt::format("eventfd: {}", ::strerror(errno)));
  return std::unique_ptr<ReportGatherer>(new ReportGatherer(std::move(event)));
}

void ReportGatherer::offer(const std::string& key, const std::string& value) {
  // A dump of another version is ignored; its library reports the difference elsewhere.
  if (diagnosis::is_dump_key(key)) {
    auto dump = diagnosis::parse_dump(value);
    if (!dump.is_ok()) return;
    const std::lock_guard lock(mutex_);
    dumps_.push_back(dump.take());
  } else if (diagnosis::is_dump_file_key(key)) {
    const std::lock_guard lock(mutex_);
    dump_files_.insert(value);
    return;
  } else if (diagnosis::is_figures_key(key)) {
    auto figures = diagnosis::parse_figures(value);
    if (!figures.is_ok()) return;
    const std::lock_guard lock(mutex_);
    figures_ = figures.take();
  } else {
    return;
  }
  const std::uint64_t one = 1;
  (void)!::write(event_.get(), &one, sizeof one);
}

std::vector<diagnosis::Dump> ReportGatherer::take_dumps() {
  const std::lock_guard lock(mutex_);
  clear_event();
  return std::exchange(dumps_, {});
}

std::vector<std::string> ReportGatherer::dump_files() {
  const std::lock_guard lock(mutex_);
  return {dump_files_.begin(), dump_files_.end()};
}

std::optional<diagnosis::JobFigures> ReportGatherer::take_figures() {
  const std::lock_guard lock(mutex_);
  return std::exchange(figures_, std::nullopt);
}

void ReportGatherer::clear_event() const {
  std::uint64_t count = 0;
  (void)!::read(event_.get(), &count, sizeof count);
}

}  // namespace dabke::launcher
