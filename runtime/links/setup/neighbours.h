// The ranks to which a link setup makes links: what is known of each of them, and what is said of those that
// do not come.
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
  bool has_ended = false;                // the link
  std::optional<SocketAddress> address;  // known once a lower rank published it
  std::uint64_t attempt = 0;             // the connection being tried; 0: none
  TimePoint retry_at{};
  Duration retry_after = kFirstRetry;
  std::string trouble;  // why the last attempt came to nothing
  bool tries_local = false;
  std::string no_local =
      "it listens on no local socket that this rank sees";  // why there is no shared memory
};

class Neighbours {
 public:
  /// `setup` outlives it.
  explicit Neighbours(const LinkSetup& setup);

  // By rank.
  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  std::size_t size() const { return all_.size(); }
  /// Null for a rank that is none of them.
  Neighbour* find(Rank rank);
  /// Whether the rank is one that connects to this one, and has not yet.
  bool may_connect(Rank rank);
  /// Whether one of them connects to this rank.
  bool any_connects() const { return !all_.empty() && all_.back().rank > setup_.world.rank; }
  bool are_linked() const;

  /// Asks the store for the next address that is not known yet, for a short while each time, so that ranks
  /// which come in another order are served meanwhile. The while grows: a rank that is not there must not
  /// make all others poll. `nothing_else`: nobody else waits to be served.
  Status look_up_addresses(bool nothing_else);
  /// Whether some address is still to be looked up.
  bool awaits_address() const;
  /// An error: the setup cannot come to its end, by what the store knows.
  Status check_trouble() const;
  /// Checks a link that is not in shared memory. An error where it had to be.
  Status check_without_shared_memory(const Neighbour& neighbour, const LinkPeer& peer) const;
  /// The error once the time is over. `refused`: clients that were turned away.
  Status missing_ranks(std::span<const std::string> refused) const;
  /// Sends the setup's last words to the neighbours that are linked, and may be past this. Waits a moment
  /// until their hosts have them.
  void send_last_words(const Status& why);

 private:
  bool is_unknown(const Neighbour& one) const { return one.rank < setup_.world.rank && !one.address; }

  const LinkSetup& setup_;
  std::vector<Neighbour> all_;  // by rank
  Duration lookup_slice_ = kFirstRetry;
};

}  // namespace dabke::links
