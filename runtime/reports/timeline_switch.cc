#include "runtime/reports/timeline_switch.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "runtime/base/threads/exceptions.h"
#include "runtime/timeline/merge/merge.h"

namespace dabke::reports {
namespace {

timeline::TimelineOrigin origin_of(const World& world, std::optional<timeline::EpochRoster> roster) {
  const auto rank = static_cast<std::size_t>(world.rank);
  return {world.job_id,
          world.epoch,
          world.rank,
          world.size,
          rank < world.hosts.size() ? world.hosts[rank] : "",
          std::move(roster)};
}

}  // namespace

TimelineSwitch::TimelineSwitch(const Config& config, const World& world, std::string merges,
                               ActiveTimeline& active, Log log, std::optional<timeline::EpochRoster> roster)
    : world_(world),
      active_(active),
      log_(std::move(log)),
      config_(config),
      format_(config.records_timeline() ? TimelineFormat::records : TimelineFormat::horovod),
      merged_elsewhere_(std::move(merges)),
      origin_(origin_of(world, std::move(roster))) {}

TimelineSwitch::~TimelineSwitch() {
  active_.watch_steps(nullptr);
  steps_.reset();
  close();
}

Status TimelineSwitch::start_with_job() {
  if (config_.timeline.empty() || config_.timeline == "DYNAMIC") {
    if (!config_.timeline_steps.empty() && world_.rank == 0)
      log_.warning("DABKE_TIMELINE_STEPS={} has no effect: set DABKE_TIMELINE to a file name, too",
                   config_.timeline_steps);
    return {};
  }
  if (const auto range = step_range(config_.timeline_steps)) {
    const RecordedSteps steps(*range, !is_later_epoch());
    const bool starts = steps.starts_with_job();
    if (world_.rank == 0) {
      steps_.emplace(steps);
      active_.watch_steps([this](std::uint64_t step) { step_ended(step); });
    }
    if (!starts) {
      warn_of_path();
      return {};
    }
  }
  return writes_here() ? open(configured(), false) : Status();
}

void TimelineSwitch::listen(Ask ask, OnMerged on_merged) {
  std::vector<wire::TimelineChange> unasked;
  {
    const std::lock_guard lock(mutex_);
    ask_ = std::move(ask);
    on_merged_ = std::move(on_merged);
    unasked.swap(unasked_);
  }
  for (wire::TimelineChange& change : unasked) want(std::move(change));
}

void TimelineSwitch::want(wire::TimelineChange change) {
  Ask ask;
  std::uint64_t from = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!ask_) {
      unasked_.push_back(std::move(change));
      return;
    }
    ask = ask_;
    from = followed_.size();
  }
  (void)ask(std::move(change), from);  // false if the job is over
}

void TimelineSwitch::step_ended(std::uint64_t step) {
  last_step_ = step;
  switch (steps_->ended(step)) {
    case RecordedSteps::Then::nothing: return;
    case RecordedSteps::Then::start: return want(configured());
    case RecordedSteps::Then::stop: return want({});
  }
}

std::optional<std::uint64_t> TimelineSwitch::stops_at_limit() {
  if (!current_ || !current_->nears_limit()) return std::nullopt;
  (void)attempt([&] { warn_of_limit(); });
  const std::lock_guard lock(mutex_);
  return followed_.size();
}

void TimelineSwitch::warn_of_limit() const {
  log_.warning(
      "the timeline's file of rank {} nears its limit, DABKE_TIMELINE_MAX_BYTES={}: the timeline stops on "
      "all ranks",
      world_.rank, config_.timeline_max_bytes);
}

Status TimelineSwitch::start(const std::string& path, bool marks_cycles) {
  return writes_here() ? call({true, marks_cycles, path}) : Status();
}

Status TimelineSwitch::stop() { return writes_here() ? call({}) : Status(); }

Status TimelineSwitch::call(const wire::TimelineChange& change) {
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
      if (change.starts) return {over_.code(), fmt::format("cannot start a timeline: {}", over_.message())};
      return running ? running->close() : Status();
    }
    if (std::exchange(has_asked, true)) {
      changed_.wait(lock);
      continue;
    }
    const std::uint64_t from = position_;
    const Ask ask = ask_;
    lock.unlock();
    const bool is_asked = ask(change, from);
    lock.lock();
    if (!is_asked && !std::exchange(is_over_, true))
      over_ = {Code::shut_down, "dabke_shutdown was called on this rank"};
  }
}

/// Returns the result of the change. For a stop, waits until the file is closed.
Status TimelineSwitch::end_of(std::uint64_t index, std::unique_lock<std::mutex>& lock) {
  const auto stopped = followed_.at(index).stopped;
  if (!stopped) return followed_.at(index).status;
  lock.unlock();
  Status status = stopped->close();
  lock.lock();
  drop_ended();
  return status;
}

/// Frees the timelines that have ended, and keeps the Status with which each ended.
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

Status TimelineSwitch::open(const wire::TimelineChange& change, bool is_late) {
  if (current_) {
    return {Code::invalid_argument, fmt::format("cannot start timeline '{}': '{}' is being written; stop it "
                                                "first, and if every rank calls, pass the same path on all",
                                                change.path, current_path_)};
  }
  const auto warn = [log = log_](const Status& error) {
    (void)attempt([&] {
      log.warning(
          "{}; training continues, and the rest of the timeline is not written. Free space there, choose "
          "another place, or record less (DABKE_TIMELINE_STEPS, DABKE_TIMELINE_MAX_BYTES)",
          error.message());
    });
  };
  timeline::TimelineOrigin origin = origin_;
  if (origin.roster) origin.roster->is_late = is_late;
  DABKE_ASSIGN_OR_RETURN(
      auto opened,
      timeline::Timeline::open({.path = change.path,
                                .mark_cycles = change.marks_cycles,
                                .begins_new_file = still_writes(change.path),
                                .format = format_,
                                .origin = std::move(origin),
                                .on_error = warn,
                                .max_bytes = static_cast<std::uint64_t>(config_.timeline_max_bytes),
                                .on_full =
                                    [this] {
                                      (void)attempt([&] { warn_of_limit(); });
                                      (void)attempt([&] { want({}); });
                                    },
                                .on_closed = merge_of(change.path)}));
  set_current(std::move(opened));
  current_path_ = change.path;
  return {};
}

bool TimelineSwitch::merges_here(const std::string& path) const {
  return format_ == TimelineFormat::records && world_.rank == 0 && path != merged_elsewhere_;
}

/// Returns the function that makes the trace of the records `path`.rank<n>; empty if
/// this rank does not make it.
std::function<void(const Status&)> TimelineSwitch::merge_of(const std::string& path) {
  if (!merges_here(path)) return {};
  std::error_code failed;
  const auto absolute = std::filesystem::absolute(path, failed);
  current_is_merged_ = std::make_shared<std::atomic<bool>>(false);
  return [this, path, absolute = failed ? path : absolute.string(),
          is_merged = current_is_merged_](const Status& written) {
    if (written.is_ok() && !goes_on_) (void)attempt([&] { merge(absolute); });
    *is_merged = true;
    (void)attempt([&] { note_merged(path); });
  };
}

void TimelineSwitch::merge(const std::string& path) const {
  std::vector<std::string> notes;
  const Status merged = timeline::merge_closed_records(path, origin_, notes);
  for (const std::string& note : notes) log_.warning("timeline: {}", note);
  if (merged.is_ok()) return log_.info("timeline: '{}' has all ranks", path);
  log_.warning("timeline: {}; {}", merged.message(), timeline::how_to_merge(path));
}

void TimelineSwitch::note_merged(const std::string& path) {
  OnMerged on_merged;
  {
    const std::lock_guard lock(mutex_);
    on_merged = on_merged_;
  }
  if (on_merged) on_merged(path);
}

/// True if a timeline of this rank that was stopped may still write to its file.
bool TimelineSwitch::still_writes(const std::string& path) {
  const auto normal = [](const std::string& any) { return std::filesystem::path(any).lexically_normal(); };
  const std::lock_guard lock(mutex_);
  drop_ended();
  return std::ranges::any_of(stopped_, [&](std::uint64_t index) {
    const Followed& one = followed_.at(index);
    return one.stopped && !one.stopped->has_ended() && normal(one.stopped_path) == normal(path);
  });
}

/// Warns when the job starts, while the user is watching, since the steps may begin hours later. It is only a
/// warning, since the program may still create the directory.
void TimelineSwitch::warn_of_path() const {
  if (!writes_here()) return;
  const Status found =
      timeline::Timeline::check({.path = config_.timeline, .format = format_, .origin = origin_});
  if (!found.is_ok())
    log_.warning(
        "{}; correct that before the first step of DABKE_TIMELINE_STEPS={}, or no timeline is written",
        found.message(), config_.timeline_steps);
}

void TimelineSwitch::warn_of_no_steps() const {
  if (!steps_ || steps_->has_started()) return;
  log_.warning("no timeline '{}' was written: DABKE_TIMELINE_STEPS={}, and {}", config_.timeline,
               config_.timeline_steps,
               last_step_ ? fmt::format("the last step that rank 0 has marked is {}", *last_step_)
                          : "rank 0 has marked no step; call dabke_mark_step at the end of each");
}

void TimelineSwitch::set_current(std::shared_ptr<timeline::Timeline> timeline) {
  active_.set(timeline, format_);
  {
    const std::lock_guard lock(mutex_);
    running_ = timeline;
  }
  current_ = std::move(timeline);
}

std::optional<std::string> TimelineSwitch::follow(const wire::TimelineChange& change) {
  Followed followed{change, {}, {}};
  std::optional<std::string> merging;
  if (writes_here() && change.starts) {
    followed.status = without_exceptions([&] { return open(change); });
    // No call of the application may be there to return the error to.
    if (!config_.timeline_steps.empty() && !followed.status.is_ok())
      log_.warning("{}", followed.status.message());
  } else if (writes_here() && current_) {
    followed.stopped = current_;
    followed.stopped_path = current_path_;
    if (merges_here(current_path_) && !*current_is_merged_) merging = current_path_;
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
  return merging;
}

void TimelineSwitch::job_is_over(const Status& cause) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_over_, true)) return;
    over_ = cause.is_ok() ? Status(Code::shut_down, "the job is over") : copy_of(cause);
  }
  changed_.notify_all();
  if (!origin_.roster || !current_ || format_ != TimelineFormat::records) return;
  (void)attempt([&] { current_->leave(cause); });
}

void TimelineSwitch::close(bool is_last_epoch) {
  goes_on_ = !is_last_epoch;
  active_.watch_steps(nullptr);
  // Other epochs may have recorded the steps.
  if (is_last_epoch && !is_later_epoch()) warn_of_no_steps();
  steps_.reset();
  const auto running = current_;
  set_current(nullptr);
  if (running) static_cast<void>(running->close().is_ok());  // errors were logged
  // The writers of stopped timelines may still be working, and call this object.
  std::vector<std::shared_ptr<timeline::Timeline>> stopped;
  {
    const std::lock_guard lock(mutex_);
    drop_ended();
    for (const std::uint64_t index : stopped_) stopped.push_back(followed_.at(index).stopped);
  }
  for (const auto& one : stopped) static_cast<void>(one->close().is_ok());
}

}  // namespace dabke::reports
