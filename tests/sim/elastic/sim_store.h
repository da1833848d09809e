// dabkerun's store under virtual time, and the view of it that lets blocking code run there.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/store/store.h"

namespace dabke::test {

class SimStore {
 public:
  using Taker = std::function<void(const std::string& value)>;
  using OnSet = std::function<void(const std::string& key, const std::string& value)>;

  void on_set(OnSet on_set) { on_set_ = std::move(on_set); }
  void set(const std::string& key, std::string value) {
    const std::string& stored = values_[key] = std::move(value);
    if (on_set_) on_set_(key, stored);
    const auto waiting = waiting_.extract(key);
    if (waiting.empty()) return;
    for (const Taker& take : waiting.mapped()) take(stored);
  }
  /// Calls `take` once, as soon as the key is there.
  void when_set(const std::string& key, Taker take) {
    if (const auto found = values_.find(key); found != values_.end()) return take(found->second);
    waiting_[key].push_back(std::move(take));
  }

 private:
  OnSet on_set_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::vector<Taker>> waiting_;
};

/// The store as one blocking call sees it. A get() of a key that has not been received ends the call with an
/// error. The caller waits for that key, calls receive(), and runs the call from its beginning: then it gets
/// as far as the next key. Each set() is sent once.
class ReplayedStore final : public store::Store {
 public:
  using Send = std::function<void(const std::string& key, std::string value)>;
  explicit ReplayedStore(Send send) : send_(std::move(send)) {}

  /// Prepares the call's next run.
  void rewind() {
    sets_ = 0;
    awaited_.clear();
  }
  /// The key for which the last run ended; empty: it came to its end.
  const std::string& awaited() const { return awaited_; }
  void receive(const std::string& key, std::string value) { received_[key] = std::move(value); }
  /// The received value of a key, which there must be.
  const std::string& received(const std::string& key) const { return received_.at(key); }

  Status set(const std::string& key, std::string_view value) override {
    if (sets_++ < sent_) return {};
    ++sent_;
    send_(key, std::string(value));
    return {};
  }
  Result<std::string> get(const std::string& key, TimePoint) override {
    if (const auto found = received_.find(key); found != received_.end()) return found->second;
    awaited_ = key;
    return Status(Code::timeout, key + " has not been received yet");
  }
  Result<std::uint64_t> increment(const std::string& key) override {
    return Status(Code::unsupported, "increment of " + key + " in a simulation");
  }
  std::string describe() const override { return "simulated"; }

 private:
  Send send_;
  int sets_ = 0, sent_ = 0;
  std::string awaited_;
  std::map<std::string, std::string> received_;
};

}  // namespace dabke::test
