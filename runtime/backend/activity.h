// The activities that the timeline shows while a backend moves the data of a batch, such as "SHM_ALLREDUCE".
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "runtime/backend/batch.h"
#include "runtime/timeline/recording/timeline.h"

namespace dabke {

/// A backend's name, as its activities begin with it. Made from a literal.
template <std::size_t size>
struct ActivityPrefix {
  consteval ActivityPrefix(const char (&text)[size]) { std::ranges::copy(text, characters.begin()); }
  constexpr std::string_view view() const { return {characters.data(), size - 1}; }
  std::array<char, size> characters{};
};

/// "SHM_ALLREDUCE", in static memory as the timeline needs it; null for a collective that moves no data.
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

/// "shm"
template <ActivityPrefix prefix>
std::string_view backend_of() {
  static constexpr auto kName = [] {
    auto name = prefix.characters;
    for (char& c : name) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return name;
  }();
  return {kName.data(), prefix.view().size()};
}

/// The run of a batch, recorded for the lifetime of this object.
class RunScope {
 public:
  /// `activity` is a literal, or null; with null, nothing is recorded.
  RunScope(const Batch& batch, const char* activity, std::string_view backend,
           std::string_view algorithm = {})
      : trace_(batch.trace) {
    if (activity == nullptr) drop();
    if (trace_.timeline != nullptr) begin(batch, activity, backend, algorithm);
  }
  ~RunScope() { trace_.end(timeline::Record::What::run); }
  RunScope(const RunScope&) = delete;
  RunScope& operator=(const RunScope&) = delete;

  /// Drops the record of the end: it is unknown whether the run has reached its end.
  void drop() { trace_.timeline = nullptr; }
  /// Records how the batch runs, for a backend that decides it after the run has begun. A literal.
  void record_algorithm(std::string_view algorithm) {
    if (trace_.timeline != nullptr) trace_.about.algorithm = trace_.timeline->text(algorithm);
  }

 private:
  void begin(const Batch& batch, const char* activity, std::string_view backend, std::string_view algorithm);

  timeline::BatchTrace trace_;
};

/// Shows the activity for the lifetime of the returned object.
template <ActivityPrefix prefix>
RunScope show_activity(const Batch& batch, std::string_view algorithm = {}) {
  return {batch, activity_of<prefix>(batch.kind), backend_of<prefix>(), algorithm};
}

}  // namespace dabke
