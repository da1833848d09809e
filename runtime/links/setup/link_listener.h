// The sockets on which a rank listens for the links of its neighbours: TCP, and a local socket if memory may
// be shared.
#pragma once

#include <string>

#include "runtime/base/threads/guarded_fd.h"
#include "runtime/links/setup/link_setup.h"

namespace dabke::links {

class LinkListener {
 public:
  /// `setup` must outlive it.
  explicit LinkListener(const LinkSetup& setup) : setup_(setup) {}

  /// Listens, and leaves its address in the store. `with_local` adds a local socket, whose failure is only a
  /// warning.
  Status listen(bool with_local);
  bool is_open() const { return static_cast<bool>(tcp_); }
  int tcp() const { return tcp_.get(); }
  /// -1 if there is no local socket.
  int local() const { return local_.get(); }

 private:
  Status listen_locally(const std::string& address);

  const LinkSetup& setup_;
  GuardedFd tcp_;
  GuardedFd local_;
};

/// The name of the local socket on which `listener` listens beside its TCP address. Only processes with the
/// job's key can compute it, so nobody else can take it first. The address distinguishes the setups of one
/// rank at the same time. The boot id distinguishes hosts that share a network namespace only by name.
Result<std::string> local_name(const LinkSetup& setup, Rank listener, const std::string& address);

}  // namespace dabke::links
