#include "launcher/elastic/cooldowns.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

namespace dabke::launcher {

void Cooldowns::note(Cooldown& cooldown, TimePoint now) const {
  Duration length = least_;
  for (int i = 0; i < cooldown.failures && length < most_; ++i) length *= 2;
  cooldown.until = now + std::min(length, most_);
  ++cooldown.failures;
}

bool Cooldowns::is_cooling(const Slot& slot, TimePoint now) const {
  const auto place = slots_.find(slot);
  const auto host = hosts_.find(slot.host);
  return (place != slots_.end() && place->second.until > now) ||
         (host != hosts_.end() && host->second.until > now);
}

TimePoint Cooldowns::first_end_after(TimePoint time) const {
  TimePoint first = kNever;
  const auto consider = [&](const Cooldown& cooldown) {
    if (cooldown.until > time) first = std::min(first, cooldown.until);
  };
  for (const auto& [slot, cooldown] : slots_) consider(cooldown);
  for (const auto& [host, cooldown] : hosts_) consider(cooldown);
  return first;
}

std::vector<std::string> Cooldowns::texts(TimePoint now) const {
  std::vector<std::string> texts;
  const auto add = [&](const std::string& name, const Cooldown& cooldown) {
    if (cooldown.until <= now) return;
    texts.push_back(fmt::format("{} for {} s", name,
                                std::chrono::ceil<std::chrono::seconds>(cooldown.until - now).count()));
  };
  for (const auto& [host, cooldown] : hosts_) add("host " + host, cooldown);
  for (const auto& [slot, cooldown] : slots_) add(fmt::format("{}:{}", slot.host, slot.local_rank), cooldown);
  return texts;
}

}  // namespace dabke::launcher
