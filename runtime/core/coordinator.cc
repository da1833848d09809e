#include "runtime/core/coordinator.h"

#include "runtime/base/text/core_list.h"
#include "runtime/base/threads/exceptions.h"
#include "runtime/base/threads/thread.h"

namespace dabke::core {

Coordinator::Coordinator(Parts parts)
    : world_(parts.world),
      config_(parts.config),
      reporter_(parts.reports.reporter),
      log_(parts.reports.log),
      channel_(std::move(parts.channel)),
      last_words_(world_, *channel_),
      sleep_(*channel_),
      driver_(parts, *channel_, inbox_, *this) {}

Result<std::unique_ptr<Coordinator>> Coordinator::open(Parts parts) {
  std::unique_ptr<Coordinator> coordinator(new Coordinator(std::move(parts)));
  if (const Status started = without_exceptions([&] { return coordinator->start(); }); !started.is_ok()) {
    (void)attempt([&] { coordinator->last_words_.send(started); });
    (void)attempt([&] { coordinator->channel_->close(Clock::now() + kCloseTime); });
    return started;
  }
  return coordinator;
}

Status Coordinator::start() {
  last_words_.prepare(topology_of(world_, config_)->neighbours(world_.rank));
  DABKE_RETURN_IF_ERROR(driver_.start());
  DABKE_ASSIGN_OR_RETURN(thread_, start_thread("dabke-coord", [this] { loop(); }));
  return {};
}

Coordinator::~Coordinator() { shut_down(); }

void Coordinator::shut_down() noexcept {
  if (!thread_.joinable()) return;
  inbox_.leave();
  wake();
  thread_.join();
}

bool Coordinator::ended_well() const {
  const std::optional<Status>& over = driver_.over();
  return !over || over->is_ok() || over->code() == Code::shut_down;
}

void Coordinator::pin_thread() const {
  const auto cores = parse_core_list(config_.thread_affinity, "DABKE_THREAD_AFFINITY");  // checked at init
  const auto mine = static_cast<std::size_t>(world_.local_rank);
  if (!cores || mine >= cores->size()) return;
  if (const Status pinned = pin_this_thread((*cores)[mine]); !pinned.is_ok()) {
    log_.warning("DABKE_THREAD_AFFINITY={}: {}; the coordinator thread is not pinned",
                 config_.thread_affinity, pinned.message());
  }
}

void Coordinator::loop() noexcept {
  std::unique_lock baton(baton_);
  try {
    drive();
  } catch (...) {
    driver_.break_off(caught());
  }
  if (driver_.is_broken()) end_broken();
  driver_.stop_reports_and_callbacks();
  ended_ = true;
}

void Coordinator::drive() {
  pin_thread();
  while (true) {
    if (driver_.is_broken()) return;  // a helper may have broken off a round, even before the first one here
    driver_.round();
    if (driver_.is_finished()) break;
    sleep_.begin();
    sleep_.sleep(!driver_.nothing_to_do(), driver_.next_deadline(), driver_, baton_);
  }
  driver_.finish();
}

/// Called when the coordinator or a lane could not do a step, usually for lack of memory. The negotiation may
/// be half changed, so it is not used any more. The other ranks receive the cause without it.
void Coordinator::end_broken() noexcept {
  last_words_.give_back_reserve();
  Status cause = driver_.take_break_cause();
  if (cause.code() == Code::out_of_memory || !attempt([&] { last_words_.send(cause); }))
    (void)attempt([&] { last_words_.send_out_of_memory(); });
  (void)attempt([&] { cause = last_words_.of_this_rank(cause); });
  driver_.end_broken(std::move(cause));
}

}  // namespace dabke::core
