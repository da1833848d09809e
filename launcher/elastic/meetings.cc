#include "launcher/elastic/meetings.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "runtime/bootstrap/elastic/answer.h"
#include "runtime/bootstrap/elastic/epoch_plan.h"

namespace dabke::launcher {

using bootstrap::Answer;

Result<std::unique_ptr<Meetings>> Meetings::open(std::string job) {
  Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return Status(Code::transport, fmt::format("eventfd: {}", ::strerror(errno)));
  return std::unique_ptr<Meetings>(new Meetings(std::move(job), std::move(event)));
}

void Meetings::offer(const std::string& key, const std::string& value) {
  if (!key.starts_with(prefix_)) return;
  const auto worker = bootstrap::arriving_worker(std::string_view(key).substr(prefix_.size()));
  auto arrival = worker ? bootstrap::read_arrival(value) : std::nullopt;
  if (!arrival || arrival->worker != *worker) return;
  {
    const std::lock_guard lock(mutex_);
    arrivals_.push_back(std::move(*arrival));
  }
  const std::uint64_t one = 1;
  (void)!::write(event_.get(), &one, sizeof one);
}

std::vector<bootstrap::Arrival> Meetings::take_arrivals() {
  const std::lock_guard lock(mutex_);
  std::uint64_t count = 0;
  (void)!::read(event_.get(), &count, sizeof count);
  return std::exchange(arrivals_, {});
}

void Meetings::publish(const Membership::Action& action, const Set& set) const {
  if (const auto* const open = std::get_if<Membership::Open>(&action)) {
    const bootstrap::EpochPlan& plan = open->plan;
    set(prefix_ + bootstrap::plan_key(plan.epoch), to_text(plan));
    for (std::size_t rank = 0; rank < plan.members.size(); ++rank) {
      set(prefix_ + bootstrap::answer_key(plan.members[rank].worker, open->visits[rank]),
          to_text(Answer{Answer::Kind::joined, plan.epoch, ""}));
    }
  } else if (const auto* const refuse = std::get_if<Membership::Refuse>(&action)) {
    const auto kind = refuse->is_failure ? Answer::Kind::written_off : Answer::Kind::left;
    set(prefix_ + bootstrap::answer_key(refuse->worker, refuse->visit),
        to_text(Answer{kind, 0, refuse->why}));
  } else if (const auto* const announce = std::get_if<Membership::Announce>(&action)) {
    set(prefix_ + bootstrap::change_key(announce->change), announce->why);
  }
}

void Meetings::publish_end(bootstrap::WorkerId worker, const EndedRank& ended, const Set& set) const {
  set(prefix_ + bootstrap::end_key(worker), to_text(ended));
}

void Meetings::publish_loss(std::uint64_t epoch, const std::string& why, const Set& set) const {
  auto [key, value] = bootstrap::loss_note(epoch, why);
  set(prefix_ + key, std::move(value));
}

}  // namespace dabke::launcher
