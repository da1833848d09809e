#include "runtime/store/checked_store.h"

#include <algorithm>
#include <thread>

#include "runtime/store/init_watch.h"

namespace dabke::store {
namespace {

class CheckedStore final : public Store {
 public:
  CheckedStore(std::shared_ptr<Store> store, std::weak_ptr<WaitCheck> check, Duration pause)
      : store_(std::move(store)), check_(std::move(check)), pause_(pause) {}

  Status set(const std::string& key, std::string_view value) override { return store_->set(key, value); }
  Result<std::string> get(const std::string& key, TimePoint deadline) override {
    const auto check = check_of_this_thread();
    if (check == nullptr || deadline <= Clock::now()) return store_->get(key, deadline);
    while (true) {
      const Duration pause = check->has_stopped() ? Duration{} : pause_;
      const TimePoint until = std::min(deadline, Clock::now() + pause);
      auto value = store_->get(key, until);
      if (value.is_ok() || value.status().code() != Code::timeout) return value;
      DABKE_RETURN_IF_ERROR(verdict(check.get()));
      if (until == deadline) return value;
    }
  }
  Result<std::uint64_t> increment(const std::string& key) override { return store_->increment(key); }
  Status remove_all(const std::string& prefix) override { return store_->remove_all(prefix); }
  void hurry(Duration limit) override { store_->hurry(limit); }
  Status trouble(Rank unlinked) override {
    DABKE_RETURN_IF_ERROR(verdict(check_of_this_thread().get()));
    return store_->trouble(unlinked);
  }
  void init_is_over() override { store_->init_is_over(); }
  std::string describe() const override { return store_->describe(); }

 private:
  std::shared_ptr<WaitCheck> check_of_this_thread() const {
    return std::this_thread::get_id() == thread_ ? check_.lock() : nullptr;
  }
  static Status verdict(WaitCheck* check) {
    if (check == nullptr || !check->stops()) return {};
    return {Code::interrupted, "dabke_init was stopped by its check"};
  }

  const std::shared_ptr<Store> store_;
  const std::weak_ptr<WaitCheck> check_;
  const std::thread::id thread_ = std::this_thread::get_id();
  const Duration pause_;
};

}  // namespace

std::shared_ptr<Store> with_check(std::shared_ptr<Store> store, std::weak_ptr<WaitCheck> check, int size) {
  if (check.expired()) return store;
  return std::make_shared<CheckedStore>(std::move(store), std::move(check), look_interval(size));
}

}  // namespace dabke::store
