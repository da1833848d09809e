#include "runtime/rendezvous/rendezvous_table.h"

#include <charconv>

namespace dabke {

void RendezvousTable::set(const std::string& key, std::string value) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[key];
  entry.value = std::move(value);
  entry.changed.notify_all();
}

std::optional<std::string> RendezvousTable::get(const std::string& key, TimePoint deadline) {
  std::unique_lock lock(mutex_);
  const auto at = entries_.try_emplace(key).first;
  Entry& entry = at->second;
  ++entry.waiting;  // while somebody waits the entry stays where it is
  entry.changed.wait_until(lock, deadline, [&] { return entry.value.has_value() || closed_; });
  --entry.waiting;
  std::optional<std::string> value = entry.value;
  if (!value && entry.waiting == 0) entries_.erase(at);
  return value;
}

std::optional<std::uint64_t> RendezvousTable::increment(const std::string& key) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[key];
  std::uint64_t count = 0;
  if (entry.value) {
    const char* last = entry.value->data() + entry.value->size();
    const auto [end, error] = std::from_chars(entry.value->data(), last, count);
    if (error != std::errc() || end != last) return std::nullopt;
  }
  entry.value = std::to_string(++count);
  entry.changed.notify_all();
  return count;
}

void RendezvousTable::remove_all(const std::string& prefix) {
  const std::lock_guard lock(mutex_);
  for (auto at = entries_.begin(); at != entries_.end();) {
    auto& [key, entry] = *at;
    const bool is_meant = prefix.empty() || key == prefix || key.starts_with(prefix + "/");
    if (is_meant) entry.value.reset();
    at = is_meant && entry.waiting == 0 ? entries_.erase(at) : std::next(at);
  }
}

void RendezvousTable::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (auto& [key, entry] : entries_) entry.changed.notify_all();
}

}  // namespace dabke
