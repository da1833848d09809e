// The neighbours of a link setup: what is known of each, and the error for those that do not come.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/links/setup/link_setup.h"

namespace dabke::links {

inline constexpr Duration kFirstRetry = std::chrono::milliseconds(20);

/// One neighbour, and what is known of it.
struct Neighbour {
  Rank rank;
  std::unique_ptr<Link> link;
  bool has_ended = false;                // the link has ended
  std::optional<SocketAddress> address;  // set once a lower rank has published it
  std::uint64_t attempt = 0;             // the current connection; 0: none
  TimePoint retry_at{};
  Duration retry_after = kFirstRetry;
  std::string trouble;  // the reason why the last attempt failed
  bool tries_local = false;
  std::string no_local =
      "it has no local socket that this rank can reach";  // the reason why there is no shared memory
};

class Neighbours {
 public:
  /// `setup` must outlive it.
  explicit Neighbours(const LinkSetup& setup);

  // In the order of ranks.
  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  std::size_t size() const { return all_.size(); }
  /// Null if the rank is not a neighbour.
  Neighbour* find(Rank rank);
  /// True if the rank is one that connects to this one and has not yet.
  bool may_connect(Rank rank);
  /// True if a neighbour connects to this rank.
  bool any_connects() const { return !all_.empty() && all_.back().rank > setup_.world.rank; }
  bool are_linked() const;

  /// Asks the store for the next unknown address, for a short time each, so that ranks which come in another
  /// order are served meanwhile. The time grows, because an absent rank must not make all others poll.
  /// `nothing_else` is true if nobody else waits to be served.
  Status look_up_addresses(bool nothing_else);
  /// True if an address is still to be looked up.
  bool awaits_address() const;
  /// Fails if the setup cannot succeed, according to the store.
  Status check_trouble() const;
  /// Checks a link that is not in shared memory. Fails if it had to be.
  Status check_without_shared_memory(const Neighbour& neighbour, const LinkPeer& peer) const;
  /// The error once the time is over. `refused` lists the clients that were refused.
  Status missing_ranks(std::span<const std::string> refused) const;
  /// Sends the setup's last words to the neighbours that are linked, which may have finished their setup.
  /// Waits a moment until their hosts have them.
  void send_last_words(const Status& why);

 private:
  bool is_unknown(const Neighbour& one) const { return one.rank < setup_.world.rank && !one.address; }

  const LinkSetup& setup_;
  std::vector<Neighbour> all_;  // by rank
  Duration lookup_slice_ = kFirstRetry;
};

}  // namespace dabke::links
