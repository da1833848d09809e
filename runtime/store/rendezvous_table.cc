#include "runtime/store/rendezvous_table.h"

#include <charconv>

namespace dabke::store {

const std::string* RendezvousTable::get(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::optional<std::int64_t> RendezvousTable::add(const std::string& key, std::int64_t amount) {
  std::int64_t count = 0;
  if (const std::string* const value = get(key)) {
    const char* const last = value->data() + value->size();
    const auto [end, error] = std::from_chars(value->data(), last, count);
    if (error != std::errc() || end != last) return std::nullopt;
  }
  if (__builtin_add_overflow(count, amount, &count)) return std::nullopt;
  values_[key] = std::to_string(count);
  return count;
}

void RendezvousTable::remove_all(const std::string& prefix) {
  std::erase_if(values_, [&](const auto& entry) {
    return prefix.empty() || entry.first == prefix || entry.first.starts_with(prefix + "/");
  });
}

}  // namespace dabke::store
