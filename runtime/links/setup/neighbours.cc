#include "runtime/links/setup/neighbours.h"

#include <algorithm>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/store/init_failure.h"

namespace dabke::links {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLongestLookup = 500ms;
constexpr Duration kLongestAbortableLookup = 100ms;
// The time for the last words to arrive.
constexpr Duration kLastWordsTime = 500ms;

class IgnoredFrames final : public FrameSink {
 public:
  void on_frame(std::span<const std::byte>) override {}
};

}  // namespace

Neighbours::Neighbours(const LinkSetup& setup) : setup_(setup) {
  const bool local =
      setup.shared_memory != SharedMemory::never && setup.self.boot_id != ProcessIdentity().boot_id;
  for (const Rank rank : setup.neighbours) all_.push_back({.rank = rank, .tries_local = local});
  std::ranges::sort(all_, {}, &Neighbour::rank);
}

Neighbour* Neighbours::find(Rank rank) {
  const auto found = std::ranges::lower_bound(all_, rank, {}, &Neighbour::rank);
  return found != all_.end() && found->rank == rank ? &*found : nullptr;
}

bool Neighbours::may_connect(Rank rank) {
  const Neighbour* const one = find(rank);
  return one != nullptr && !one->link && rank > setup_.world.rank;
}

bool Neighbours::are_linked() const {
  return std::ranges::all_of(all_, [](const Neighbour& one) { return one.link != nullptr; });
}

Status Neighbours::look_up_addresses(bool nothing_else) {
  const auto unknown = [this](const Neighbour& one) { return is_unknown(one); };
  const auto now = Clock::now();
  TimePoint until = std::min(setup_.deadline, now + lookup_slice_);
  if (nothing_else && !setup_.aborted && std::ranges::count_if(all_, unknown) == 1) until = setup_.deadline;
  for (Neighbour& one : all_) {
    if (!is_unknown(one)) continue;
    auto found = setup_.store->get(fmt::format("{}/{}", setup_.prefix, one.rank), until);
    if (!found.is_ok() && found.status().code() != Code::timeout) return found.status();
    until = now;  // the others without waiting
    if (!found.is_ok()) continue;
    DABKE_ASSIGN_OR_RETURN(one.address, SocketAddress::parse(*found));
    lookup_slice_ = kFirstRetry;
  }
  if (awaits_address())
    lookup_slice_ = std::min(2 * lookup_slice_, setup_.aborted ? kLongestAbortableLookup : kLongestLookup);
  return {};
}

bool Neighbours::awaits_address() const {
  return std::ranges::any_of(all_, [this](const Neighbour& one) { return is_unknown(one); });
}

Status Neighbours::check_trouble() const {
  if (setup_.aborted) return setup_.aborted();
  for (const Neighbour& one : all_) {
    if (one.has_ended) DABKE_RETURN_IF_ERROR(setup_.store->trouble(one.rank));
  }
  return setup_.store->trouble();
}

Status Neighbours::check_without_shared_memory(const Neighbour& neighbour, const LinkPeer& peer) const {
  if (setup_.shared_memory == SharedMemory::never) return {};
  const std::string who = setup_.world.name_of(neighbour.rank);
  const bool same_host = peer.process.boot_id == setup_.self.boot_id;
  const bool connects_to_it = neighbour.rank < setup_.world.rank;
  const std::string why = !same_host        ? "it is on another host"
                          : !connects_to_it ? "it connected over TCP; its log has the reason"
                                            : neighbour.no_local;
  if (setup_.shared_memory == SharedMemory::required) {
    return {
        Code::transport,
        fmt::format("DABKE_CONTROLLER=shm: rank {} shares no memory with {}: {}; auto uses TCP between them",
                    setup_.world.rank, who, why)};
  }
  if (same_host && connects_to_it)
    setup_.log.info("rank {} uses TCP with {}, although on the same machine: {}", setup_.world.rank, who,
                    why);
  return {};
}

Status Neighbours::missing_ranks(std::span<const std::string> refused) const {
  constexpr std::size_t kMostNamed = 8;
  std::vector<std::string> named;
  std::vector<Rank> absent;
  std::size_t missing = 0;
  for (const Neighbour& one : all_) {
    if (!one.link) absent.push_back(one.rank);
    if (one.link || ++missing > kMostNamed) continue;
    std::string what = "it has not connected";
    if (one.rank < setup_.world.rank) what = one.address ? one.trouble : "its address is not in the store";
    if (what.empty()) what = fmt::format("{} does not answer", one.address->to_string());
    named.push_back(fmt::format("{} ({})", setup_.world.name_of(one.rank), what));
  }
  std::string text = fmt::format("rank {} has no link to {}", setup_.world.rank, fmt::join(named, ", "));
  if (missing > named.size()) text += fmt::format(" and {} more", missing - named.size());
  // The missing ranks may have waited in vain in init themselves, and have reported for whom.
  if (!setup_.aborted) store::report_vain_wait(*setup_.store, setup_.world.rank, {Code::timeout, text});
  if (!setup_.aborted) text += store::describe_absent(*setup_.store, setup_.world, absent).reported;
  if (!refused.empty()) text += fmt::format("; refused: {}", fmt::join(refused, ", "));
  return {
      Code::timeout,
      text +
          "; check that these ranks run, that no firewall blocks the hosts, and that DABKE_NETWORK_INTERFACE "
          "names their network; to wait longer, raise DABKE_START_TIMEOUT_SECONDS"};
}

void Neighbours::send_last_words(const Status& why) {
  const std::vector<std::byte> words = setup_.last_words(why);
  IgnoredFrames nothing;
  std::vector<Link*> open;
  for (Neighbour& one : all_) {
    if (one.link && one.link->send(words).is_ok()) open.push_back(one.link.get());
  }
  const TimePoint until = Clock::now() + kLastWordsTime;
  while (!open.empty() && Clock::now() < until) {
    std::erase_if(open, [&](Link* link) {
      link->flush();
      // Closing with unread bytes would cut off the last words.
      const bool is_open = link->receive(nothing).is_ok();
      if (!is_open || link->wants_write()) return !is_open;
      link->finish_sending();
      return link->all_arrived();
    });
    if (!open.empty()) std::this_thread::sleep_for(1ms);
  }
}

}  // namespace dabke::links
