#include "runtime/diagnosis/reporter.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "runtime/base/hmac.h"
#include "runtime/base/threads/exceptions.h"
#include "runtime/base/threads/thread.h"
#include "runtime/diagnosis/dumps/dump_file.h"
#include "runtime/diagnosis/dumps/short_stack.h"
#include "runtime/diagnosis/stacks/thread_places.h"

namespace dabke::diagnosis {
namespace {

constexpr std::size_t kEventsForLauncher = 256;
constexpr std::size_t kEventsOfFailure = 512;  // few: the program waits, and many ranks may write at once
constexpr std::size_t kStackTextBytes = 8192;
constexpr Duration kProviderTime = std::chrono::milliseconds(300);
/// Several tensors stall together, and one report of the positions is recent enough for all of them.

std::string_view name_of(FlightEvent::What what) {
  constexpr std::string_view kNames[] = {"submitted", "ordered", "started", "finished",
                                         "failed",    "note",    "epoch"};
  return kNames[static_cast<std::size_t>(what)];
}

double in_seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Reporter::Reporter(Parts parts) : parts_(std::move(parts)) {}

Status Reporter::start() {
  DABKE_ASSIGN_OR_RETURN(thread_, start_thread("dabke-report", [this] { loop(); }));
  return {};
}

void Reporter::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Dump Reporter::begin(std::string reason, std::uint64_t incident) const {
  Dump dump;
  dump.reason = std::move(reason);
  dump.incident = incident;
  dump.job = to_hex(parts_.world.job_id);
  dump.epoch = parts_.world.epoch;
  dump.rank = parts_.world.rank;
  dump.size = parts_.world.size;
  if (!parts_.world.hosts.empty()) dump.host = parts_.world.hosts[static_cast<std::size_t>(dump.rank)];
  dump.pid = ::getpid();
  dump.unix_time = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const TimePoint now = Clock::now();
  const std::vector<FlightEvent> events = parts_.recorder.events();
  dump.events_before = parts_.recorder.count() - events.size();
  for (const FlightEvent& event : events) {
    const bool is_call = event.what != FlightEvent::What::note && event.what != FlightEvent::What::epoch;
    dump.events.push_back({std::string(name_of(event.what)), in_seconds(now - event.at), event.name,
                           is_call ? std::string(dabke::name_of(event.kind)) : "", event.process_set,
                           event.number, event.tensors, event.size_bytes});
    if (event.what == FlightEvent::What::submitted) dump.submitted = event.number;
    if (event.what == FlightEvent::What::epoch) dump.submitted = 0;
  }
  return dump;
}

void Reporter::write(Dump dump, Why why, Stacks stacks) {
  if (!path_of(dump.rank) && (why == Why::failure || !is_gathered())) return;
  post([this, dump = std::make_shared<Dump>(std::move(dump)), why, stacks] {
    write_now(std::move(*dump), why, stacks);
  });
}

void Reporter::flush(Duration limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [this] { return work_.empty() && !busy_; });
}

Status Reporter::write_to(Dump dump, const std::string& path) {
  add_stacks(dump, Stacks::signals);
  return write_dump_to(path, to_json(dump, FlightRecorder::kEvents));
}

bool Reporter::take_exit_status(Rank rank, TimePoint deadline, std::function<void(std::optional<int>)> done) {
  if (!parts_.exit_status_of) return false;
  post([this, rank, deadline, done = std::move(done)] { done(parts_.exit_status_of(rank, deadline)); });
  return true;
}

void Reporter::take_places(std::function<void(std::string text)> done) {
  post([this, done = std::move(done), asked = Clock::now()] {
    // Several tensors stall together. Questions that came before these positions were taken share them. A
    // later question may be about another call.
    if (recent_places_at_ < asked) {
      recent_places_at_ = Clock::now();
      const std::string application = parts_.stacks->ask(kProviderTime);
      // The application's own stack is enough, with what the main thread does below it.
      const std::size_t threads = application.empty() ? kMostThreads : 1;
      std::vector<Dump::Stack> stacks;
      if (!parts_.config.disable_native_stacks) stacks = thread_places(threads);
      recent_places_.clear();
      for (const std::string& line : short_stack(application, stacks))
        recent_places_ += fmt::format("  {}\n", line);
      if (recent_places_.size() > kStackTextBytes) {
        recent_places_.resize(kStackTextBytes);
        recent_places_ += "...\n";
      }
    }
    done(recent_places_);
  });
}

void Reporter::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    work_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void Reporter::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !work_.empty(); });
    if (work_.empty()) return;
    const auto work = std::move(work_.front());
    work_.pop_front();
    busy_ = true;
    lock.unlock();
    // The job does not need a report, so it goes on.
    if (!attempt(work)) {
      attempt([&] { parts_.log.warning("out of memory: cannot report what this rank does"); });
    }
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void Reporter::add_stacks(Dump& dump, Stacks stacks) {
  if (stacks == Stacks::none) return;
  const std::lock_guard lock(native_mutex_);
  if (!parts_.config.disable_native_stacks)
    dump.stacks = stacks == Stacks::signals ? native_.take() : thread_places();
  dump.application_stack = parts_.stacks->ask(kProviderTime);
}

void Reporter::write_now(Dump dump, Why why, Stacks stacks) {
  add_stacks(dump, stacks);
  const auto path = path_of(dump.rank);
  const std::size_t most_events = why == Why::hang ? FlightRecorder::kEvents : kEventsOfFailure;
  const bool is_written = path && write_file(dump, *path, most_events);
  if (!is_gathered()) return;
  // If the launcher does not get it, the job goes on or ends all the same.
  if (is_written) (void)parts_.launcher->set(dump_file_key(dump.rank), *path);
  if (why == Why::hang)
    (void)parts_.launcher->set(dump_key(dump.incident, dump.rank), to_json(dump, kEventsForLauncher));
}

bool Reporter::write_file(const Dump& dump, const std::string& path, std::size_t most_events) {
  if (const Status written = write_dump_in_shared_folder(path, to_json(dump, most_events));
      !written.is_ok()) {
    parts_.log.warning("{}", written.message());
    return false;
  }
  // The message appears once for the job: from the launcher, else from the first rank.
  if (dump.rank == 0 && !is_gathered()) {
    parts_.log.warning("{}", dumps_text({path}, dump.size, is_one_host()));
  } else {
    parts_.log.info("what this rank was doing is in {}", path);
  }
  // A directory that the user has named is left to the user.
  if (parts_.config.dump_dir.empty())
    remove_old_dumps(std::filesystem::path(path).parent_path().string(), job_of_dumps());
  return true;
}

bool Reporter::is_one_host() const {
  const auto& hosts = parts_.world.hosts;
  return std::ranges::all_of(hosts, [&](const std::string& host) { return host == hosts.front(); });
}

std::optional<std::string> Reporter::path_of(Rank rank) const {
  std::string directory = parts_.config.dump_dir;
  if (directory == "none") return std::nullopt;
  if (directory.empty()) {
    const char* const temporary = std::getenv("TMPDIR");
    directory = temporary != nullptr && *temporary != '\0' ? temporary : "/tmp";
  }
  return directory + "/" + dump_file_name(job_of_dumps(), rank);
}

std::string Reporter::job_of_dumps() const { return to_hex(parts_.world.job_id).substr(0, 8); }

}  // namespace dabke::diagnosis
