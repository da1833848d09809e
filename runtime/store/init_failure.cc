#include "runtime/store/init_failure.h"

#include <charconv>
#include <thread>

#include <fmt/format.h>

namespace dabke::store {
namespace {

/// A limit, because reports of reports grow.
constexpr std::size_t kMostText = 2000;
constexpr std::size_t kMostNamed = 8;
constexpr Duration kTroublePause = std::chrono::milliseconds(20);
constexpr const char* kFirstKey = "init-failed/first";
constexpr std::string_view kFailedInInit = " failed in dabke_init: ";

std::string key_of(Rank rank) { return fmt::format("init-failed/{}", rank); }

}  // namespace

void report_vain_wait(Store& store, Rank rank, const Status& why) {
  // If the store is gone, nobody reads it.
  (void)store.set(key_of(rank), why.message().substr(0, kMostText));
}

void report_init_failure(Store& store, Rank rank, const Status& why) {
  report_vain_wait(store, rank, why);
  store.init_is_over();
  // Two ranks that fail at the same moment are both first, and either will do.
  if (store.get(kFirstKey, Clock::now()).is_ok()) return;
  const auto [key, value] = init_failure_note(init_failure_of(fmt::format("rank {}", rank), why));
  (void)store.set(key, value);
}

std::pair<std::string, std::string> init_failure_note(const Status& why) {
  return {kFirstKey, fmt::format("{}\n{}", static_cast<int>(why.code()), why.message().substr(0, kMostText))};
}

Status init_failure_of(const std::string& name, const Status& why) {
  const Code code = why.code() == Code::interrupted ? Code::aborted : why.code();  // no other wait was
  if (why.code() == Code::peer_lost || why.message().find(kFailedInInit) != std::string::npos) return why;
  return {code, fmt::format("{}{}{}", name, kFailedInInit, why.message())};
}

Status first_init_failure(Store& store) {
  const auto left = store.get(kFirstKey, Clock::now());
  if (!left.is_ok()) return {};
  int code = 0;
  const auto [end, error] = std::from_chars(left->data(), left->data() + left->size(), code);
  if (error != std::errc() || code == 0) return {};
  const auto found = static_cast<Code>(code);
  // A rank that waits would take a timeout for its own.
  return {found == Code::timeout ? Code::peer_lost : found,
          left->substr(std::min(left->size(), static_cast<std::size_t>(end - left->data()) + 1))};
}

Status await_trouble(Store& store, Duration patience) {
  for (const TimePoint until = Clock::now() + patience;;) {
    Status found = store.trouble();
    if (!found.is_ok() || Clock::now() >= until) return found;
    std::this_thread::sleep_for(kTroublePause);
  }
}

Status link_ended_in_init(Rank rank, const std::vector<std::string>& hosts) {
  return {Code::peer_lost,
          fmt::format("{}: it closed its connection in dabke_init (killed, or ended without dabke_shutdown)",
                      name_of_rank(rank, hosts))};
}

Status process_ended_in_init(Rank rank, const std::vector<std::string>& hosts, std::uint32_t pid) {
  return {Code::peer_lost,
          fmt::format("process {} of {} ended in dabke_init (killed, or ended without dabke_shutdown)", pid,
                      name_of_rank(rank, hosts))};
}

AbsentRanks describe_absent(Store& store, const World& world, std::span<const Rank> absent,
                            Duration patience) {
  AbsentRanks found;
  TimePoint until = Clock::now() + patience;
  for (std::size_t i = 0; i < absent.size() && i < kMostNamed; ++i) {
    const Rank rank = absent[i];
    found.who += fmt::format("{}{}", i == 0 ? "" : ", ", world.name_of(rank));
    if (!found.reported.empty()) continue;
    const auto report = store.get(key_of(rank), until);
    until = TimePoint{};  // the others without waiting
    if (report.is_ok()) found.reported = fmt::format(" (rank {} gave up: {})", rank, *report);
  }
  if (absent.size() > kMostNamed) found.who += fmt::format(" and {} more", absent.size() - kMostNamed);
  return found;
}

}  // namespace dabke::store
