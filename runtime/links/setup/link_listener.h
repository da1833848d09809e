// Where a rank listens for the links of its neighbours: on TCP, and on a local socket where memory may be
// shared.
#pragma once

#include <string>

#include "runtime/base/threads/guarded_fd.h"
#include "runtime/links/setup/link_setup.h"

namespace dabke::links {

class LinkListener {
 public:
  /// `setup` outlives it.
  explicit LinkListener(const LinkSetup& setup) : setup_(setup) {}

  /// Listens, and leaves its address in the store. `with_local`: on a local socket, too; a failure there is a
  /// warning.
  Status listen(bool with_local);
  bool is_open() const { return static_cast<bool>(tcp_); }
  int tcp() const { return tcp_.get(); }
  /// -1 where it listens on none.
  int local() const { return local_.get(); }

 private:
  Status listen_locally(const std::string& address);

  const LinkSetup& setup_;
  GuardedFd tcp_;
  GuardedFd local_;
};

/// The name of the local socket on which `listener` listens beside its TCP address. Known to whoever knows
/// the job's key, so that nobody else can take it first. The address tells apart what one rank sets up at the
/// same time, the boot id hosts that share a network namespace only by name.
Result<std::string> local_name(const LinkSetup& setup, Rank listener, const std::string& address);

}  // namespace dabke::links
