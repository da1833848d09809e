// The process at the other end, in terms that another process of the same host can watch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/base/owned.h"
#include "runtime/base/status.h"

namespace dabke {

/// A pid means the same process only under the same kernel (boot id) and in the same pid namespace.
struct ProcessIdentity {
  std::array<std::byte, 16> boot_id{};  // all zero: not known
  std::uint64_t pid_namespace = 0;      // inode; 0: not known
  std::uint32_t pid = 0;

  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
  /// Whether the pid of `other` means something here.
  bool shares_pids_with(const ProcessIdentity& other) const {
    return boot_id != std::array<std::byte, 16>{} && pid_namespace != 0 && boot_id == other.boot_id &&
           pid_namespace == other.pid_namespace;
  }
};

/// Parts that /proc would tell stay unknown where it cannot be read; that is no error.
ProcessIdentity identity_of_this_process();

/// A descriptor that becomes readable when the process ends. Code peer_lost when it has ended already.
Result<Fd> watch_process(std::uint32_t pid);

}  // namespace dabke
