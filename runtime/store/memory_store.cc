#include <charconv>
#include <condition_variable>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "runtime/store/store.h"

namespace dabke::store {
namespace {

class MemoryStore final : public Store {
 public:
  Status set(const std::string& key, std::string_view value) override {
    {
      const std::lock_guard lock(mutex_);
      values_.insert_or_assign(key, std::string(value));
    }
    changed_.notify_all();
    return {};
  }

  Result<std::string> get(const std::string& key, TimePoint deadline) override {
    std::unique_lock lock(mutex_);
    const auto there = [&] { return values_.contains(key); };
    if (deadline == kNever) {
      changed_.wait(lock, there);
    } else if (!changed_.wait_until(lock, deadline, there)) {
      return Status(Code::timeout, fmt::format("'{}' was not set in the {} store in time", key, describe()));
    }
    return values_.at(key);
  }

  Result<std::uint64_t> increment(const std::string& key) override {
    std::uint64_t count = 0;
    {
      const std::lock_guard lock(mutex_);
      std::string& value = values_[key];
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
      if (!value.empty() && (error != std::errc() || end != value.data() + value.size())) {
        return Status(Code::invalid_argument,
                      fmt::format("'{}' contains '{}', which is not a counter", key, value));
      }
      value = std::to_string(++count);
    }
    changed_.notify_all();
    return count;
  }

  Status remove_all(const std::string& prefix) override {
    const std::lock_guard lock(mutex_);
    std::erase_if(values_, [&](const auto& entry) {
      return prefix.empty() || entry.first == prefix || entry.first.starts_with(prefix + "/");
    });
    return {};
  }

  std::string describe() const override { return "memory"; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

class PrefixStore final : public Store {
 public:
  PrefixStore(std::shared_ptr<Store> store, std::string prefix)
      : store_(std::move(store)), prefix_(std::move(prefix)) {}

  Status set(const std::string& key, std::string_view value) override { return store_->set(at(key), value); }
  Result<std::string> get(const std::string& key, TimePoint deadline) override {
    return store_->get(at(key), deadline);
  }
  Result<std::uint64_t> increment(const std::string& key) override { return store_->increment(at(key)); }
  Status remove_all(const std::string& prefix) override {
    return store_->remove_all(prefix.empty() ? prefix_ : at(prefix));
  }
  void hurry(Duration limit) override { store_->hurry(limit); }
  Status trouble(Rank unlinked) override { return store_->trouble(unlinked); }
  void init_is_over() override { store_->init_is_over(); }
  std::string describe() const override { return store_->describe(); }

 private:
  std::string at(const std::string& key) const { return prefix_ + "/" + key; }

  std::shared_ptr<Store> store_;
  std::string prefix_;
};

}  // namespace

std::shared_ptr<Store> with_prefix(std::shared_ptr<Store> store, std::string prefix) {
  return std::make_shared<PrefixStore>(std::move(store), std::move(prefix));
}

std::shared_ptr<Store> make_memory_store() { return std::make_shared<MemoryStore>(); }

}  // namespace dabke::store
