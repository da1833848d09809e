// What the timeline shows while a backend moves the data of a batch: "SHM_ALLREDUCE" and the like.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "runtime/backend/batch.h"
#include "runtime/timeline/timeline.h"

namespace dabke {

/// A backend's name as its activities begin with it; a literal.
template <std::size_t size>
struct ActivityPrefix {
  consteval ActivityPrefix(const char (&text)[size]) { std::ranges::copy(text, characters.begin()); }
  constexpr std::string_view view() const { return {characters.data(), size - 1}; }
  std::array<char, size> characters{};
};

/// "SHM_ALLREDUCE", which is there for good, as the timeline needs it; null of what moves no data.
template <ActivityPrefix prefix>
const char* activity_of(CollectiveKind kind) {
  static constexpr auto kNames = [] {
    std::array<std::array<char, 48>, kCollectiveCount> names{};
    for (std::size_t row = 0; row < names.size(); ++row) {
      auto end = std::ranges::copy(prefix.view(), names[row].begin()).out;
      *end++ = '_';
      std::ranges::copy(activity_name_of(static_cast<CollectiveKind>(row)), end);
    }
    return names;
  }();
  return moves_data(kind) ? kNames[static_cast<std::size_t>(kind)].data() : nullptr;
}

/// Shows it while it lives.
template <ActivityPrefix prefix>
ActivityScope show_activity(const Batch& batch) {
  const char* const activity = activity_of<prefix>(batch.kind);
  return {activity == nullptr ? nullptr : batch.timeline, batch.timeline_ids, activity};
}

}  // namespace dabke
