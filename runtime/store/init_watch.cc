#include "runtime/store/init_watch.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "runtime/store/init_failure.h"

namespace dabke::store {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLook = 250ms;
constexpr Duration kLongestLook = 750ms;
constexpr int kRanksAtOnce = 4;  // in a millisecond

std::string clean_end_key(Rank rank) { return fmt::format("ended/{}", rank); }

class InitStore final : public Store {
 public:
  InitStore(std::shared_ptr<Store> epoch, const World& world, std::vector<links::ProcessIdentity> processes)
      : epoch_(std::move(epoch)), hosts_(world.hosts), look_(look_interval(world.size)) {
    const links::ProcessIdentity self = links::identity_of_this_process();
    for (std::size_t rank = 0; rank < processes.size(); ++rank) {
      const links::ProcessIdentity& one = processes[rank];
      if (self.shares_pids_with(one) && one.pid != self.pid)
        watched_.push_back({static_cast<Rank>(rank), one.pid});
    }
  }

  Status set(const std::string& key, std::string_view value) override { return epoch_->set(key, value); }
  Result<std::string> get(const std::string& key, TimePoint deadline) override {
    while (true) {
      const TimePoint until = is_over_ ? deadline : std::min(deadline, Clock::now() + look_);
      auto value = epoch_->get(key, until);
      if (value.is_ok() || value.status().code() != Code::timeout || until == deadline) return value;
      DABKE_RETURN_IF_ERROR(trouble(-1));
    }
  }
  Result<std::uint64_t> increment(const std::string& key) override { return epoch_->increment(key); }
  Status remove_all(const std::string& prefix) override { return epoch_->remove_all(prefix); }
  void hurry(Duration limit) override { epoch_->hurry(limit); }
  std::string describe() const override { return epoch_->describe(); }

  Status trouble(Rank unlinked) override {
    if (is_over_) return {};
    DABKE_RETURN_IF_ERROR(epoch_->trouble(unlinked));
    const std::lock_guard lock(mutex_);
    const TimePoint now = Clock::now();
    if (unlinked >= 0) unlinked_.try_emplace(unlinked, now);
    if (!trouble_.is_ok() || now < looks_at_) return trouble_;
    looks_at_ = now + look_;
    const auto ended =
        std::ranges::find_if(watched_, [](const auto& one) { return links::has_ended(one.pid); });
    trouble_ = first_init_failure(*epoch_);  // after that check: an ended rank may have left its reason
    if (!trouble_.is_ok()) return trouble_;
    if (ended != watched_.end()) {
      if (!has_left(ended->rank)) trouble_ = process_ended_in_init(ended->rank, hosts_, ended->pid);
      watched_.erase(ended);
    }
    for (auto& [rank, since] : unlinked_) {
      if (!trouble_.is_ok() || now - since < kInitVerdict) continue;
      since = kNever;
      if (!has_left(rank)) trouble_ = link_ended_in_init(rank, hosts_);
    }
    return trouble_;
  }
  void init_is_over() override { is_over_ = true; }

 private:
  struct Watched {
    Rank rank;
    std::uint32_t pid;
  };

  bool has_left(Rank rank) { return epoch_->get(clean_end_key(rank), Clock::now()).is_ok(); }

  const std::shared_ptr<Store> epoch_;
  const std::vector<std::string> hosts_;
  const Duration look_;
  std::atomic<bool> is_over_{false};
  std::mutex mutex_;
  std::vector<Watched> watched_;
  std::map<Rank, TimePoint> unlinked_;  // since when; kNever: this has been judged
  TimePoint looks_at_ = Clock::now() + look_;
  Status trouble_;
};

}  // namespace

Duration look_interval(int size) {
  return std::clamp<Duration>(std::chrono::milliseconds(size / kRanksAtOnce), kLook, kLongestLook);
}

std::shared_ptr<Store> watch_init(std::shared_ptr<Store> epoch, const World& world,
                                  std::vector<links::ProcessIdentity> processes) {
  return std::make_shared<InitStore>(std::move(epoch), world, std::move(processes));
}

void report_clean_end(Store& epoch, Rank rank) {
  // If the store is gone, nobody waits in it either.
  (void)epoch.set(clean_end_key(rank), "");
}

}  // namespace dabke::store
