#include "runtime/core/timeline_switch.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "runtime/base/exceptions.h"

namespace dabke {

TimelineSwitch::TimelineSwitch(const Config& config, const World& world, ActiveTimeline& active, Log log)
    : world_(world),
      active_(active),
      log_(std::move(log)),
      config_(config),
      format_(config.timeline_format == "records" ? TimelineFormat::records : TimelineFormat::horovod) {}

Status TimelineSwitch::start_with_job() {
  if (config_.timeline.empty() || config_.timeline == "DYNAMIC" || !writes_here()) return {};
  return open({true, config_.timeline_mark_cycles, config_.timeline});
}

Status TimelineSwitch::start(const std::string& path, bool marks_cycles, const Ask& ask) {
  return writes_here() ? call({true, marks_cycles, path}, ask) : Status();
}

Status TimelineSwitch::stop(const Ask& ask) { return writes_here() ? call({}, ask) : Status(); }

Status TimelineSwitch::call(const TimelineChange& change, const Ask& ask) {
  const std::lock_guard one_at_a_time(calls_);
  std::unique_lock lock(mutex_);
  for (bool has_asked = false;;) {
    const std::uint64_t found =
        followed_.find(position_, [&](const Followed& one) { return one.change == change; });
    if (found != followed_.size()) {
      position_ = found + 1;
      return end_of(found, lock);
    }
    if (is_over_) {
      const auto running = running_;
      lock.unlock();
      if (change.starts) return {over_.code(), fmt::format("no timeline is started: {}", over_.message())};
      return running ? running->close() : Status();
    }
    if (std::exchange(has_asked, true)) {
      changed_.wait(lock);
      continue;
    }
    const std::uint64_t from = position_;
    lock.unlock();
    const bool is_asked = ask(change, from);
    lock.lock();
    if (!is_asked && !std::exchange(is_over_, true))
      over_ = {Code::shut_down, "dabke_shutdown was called on this rank"};
  }
}

/// What has become of the change; of a stop, when the file is closed.
Status TimelineSwitch::end_of(std::uint64_t index, std::unique_lock<std::mutex>& lock) {
  const auto stopped = followed_.at(index).stopped;
  if (!stopped) return followed_.at(index).status;
  lock.unlock();
  Status status = stopped->close();
  lock.lock();
  drop_ended();
  return status;
}

/// Their memory is given back, and what writing them has ended with is kept.
void TimelineSwitch::drop_ended() {
  std::erase_if(stopped_, [this](std::uint64_t index) {
    if (followed_.find(index, [](const Followed&) { return true; }) != index) return true;  // forgotten
    Followed& one = followed_.at(index);
    if (!one.stopped->has_ended()) return false;
    one.status = one.stopped->close();
    one.stopped.reset();
    return true;
  });
}

Status TimelineSwitch::open(const TimelineChange& change) {
  if (current_) {
    return {Code::invalid_argument,
            fmt::format("cannot start timeline '{}': one is being written; stop it first", change.path)};
  }
  const auto warn = [log = log_](const Status& error) {
    (void)attempt([&] {
      log.warning("{}; training goes on, and the rest of the timeline is not written", error.message());
    });
  };
  const auto rank = static_cast<std::size_t>(world_.rank);
  DABKE_ASSIGN_OR_RETURN(auto opened,
                         Timeline::open({.path = change.path,
                                         .mark_cycles = change.marks_cycles,
                                         .format = format_,
                                         .origin = {world_.job_id, world_.epoch, world_.rank, world_.size,
                                                    rank < world_.hosts.size() ? world_.hosts[rank] : ""},
                                         .on_error = warn}));
  set_current(std::move(opened));
  return {};
}

void TimelineSwitch::set_current(std::shared_ptr<Timeline> timeline) {
  active_.set(timeline, format_);
  {
    const std::lock_guard lock(mutex_);
    running_ = timeline;
  }
  current_ = std::move(timeline);
}

void TimelineSwitch::follow(const TimelineChange& change) {
  Followed followed{change, {}, {}};
  if (writes_here() && change.starts) {
    followed.status = without_exceptions([&] { return open(change); });
  } else if (writes_here() && current_) {
    followed.stopped = current_;
    current_->end();
    set_current(nullptr);
  }
  {
    const std::lock_guard lock(mutex_);
    drop_ended();
    if (followed.stopped) stopped_.push_back(followed_.size());
    followed_.add(std::move(followed));
  }
  changed_.notify_all();
}

void TimelineSwitch::job_is_over(const Status& cause) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_over_, true)) return;
    over_ = cause.is_ok() ? Status(Code::shut_down, "the job is over") : copy_of(cause);
  }
  changed_.notify_all();
}

Status TimelineSwitch::close() {
  const auto running = current_;
  set_current(nullptr);
  return running ? running->close() : Status();
}

}  // namespace dabke
