#include "runtime/diagnosis/flight_recorder.h"

#include <algorithm>
#include <cstring>

namespace dabke::diagnosis {
namespace {

constexpr std::string_view kLeftOut = "...";

}  // namespace

void FlightRecorder::record(FlightEvent::What what, CollectiveKind kind, ProcessSetId process_set,
                            std::uint64_t number, std::size_t tensors, std::uint64_t size_bytes,
                            std::string_view name, TimePoint at) {
  Packed packed{};
  packed.at_ns = std::chrono::nanoseconds(at.time_since_epoch()).count();
  packed.number = number;
  packed.size_bytes = size_bytes;
  packed.process_set = process_set;
  packed.tensors = static_cast<std::uint32_t>(tensors);
  packed.what = what;
  packed.kind = kind;
  packed.name_length = static_cast<std::uint8_t>(std::min(name.size(), kNameBytes));
  if (name.size() <= kNameBytes) {
    std::ranges::copy(name, packed.name.begin());
  } else {
    constexpr std::size_t kHead = (kNameBytes - kLeftOut.size()) / 2;
    constexpr std::size_t kTail = kNameBytes - kLeftOut.size() - kHead;
    auto end = std::ranges::copy(name.substr(0, kHead), packed.name.begin()).out;
    end = std::ranges::copy(kLeftOut, end).out;
    std::ranges::copy(name.substr(name.size() - kTail), end);
  }
  std::array<std::uint64_t, kWords> words{};
  std::memcpy(words.data(), &packed, sizeof packed);
  const std::size_t used = (sizeof packed - kNameBytes + packed.name_length) / sizeof words[0] + 1;

  const std::uint64_t index = next_.fetch_add(1, std::memory_order_relaxed);
  Cell& cell = cells_[index % kEvents];
  std::uint64_t turn = cell.turn.load(std::memory_order_relaxed);
  const std::uint64_t writing = 2 * index + 1;
  if (turn % 2 == 1 || turn > writing || !cell.turn.compare_exchange_strong(turn, writing)) return;
  // Each store releases, so a reader that sees a new word also sees that the turn is odd or newer.
  for (std::size_t i = 0; i < std::min(used, kWords); ++i) {
    cell.words[i].store(words[i], std::memory_order_release);
  }
  cell.turn.store(writing + 1, std::memory_order_release);
}

std::vector<FlightEvent> FlightRecorder::events() const {
  std::vector<FlightEvent> out;
  const std::uint64_t end = next_.load(std::memory_order_acquire);
  for (std::uint64_t index = end > kEvents ? end - kEvents : 0; index < end; ++index) {
    const Cell& cell = cells_[index % kEvents];
    if (cell.turn.load(std::memory_order_acquire) != 2 * index + 2) continue;
    std::array<std::uint64_t, kWords> words{};
    for (std::size_t i = 0; i < kWords; ++i) words[i] = cell.words[i].load(std::memory_order_acquire);
    if (cell.turn.load(std::memory_order_relaxed) != 2 * index + 2) continue;
    Packed packed;
    std::memcpy(&packed, words.data(), sizeof packed);
    out.push_back({packed.what, packed.kind, packed.tensors, packed.process_set, packed.number,
                   packed.size_bytes, TimePoint(std::chrono::nanoseconds(packed.at_ns)),
                   std::string(packed.name.data(), packed.name_length)});
  }
  return out;
}

}  // namespace dabke::diagnosis
