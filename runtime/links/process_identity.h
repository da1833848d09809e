// The process at the other end, described so that another process of the same host can watch it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/base/threads/owned.h"

namespace dabke::links {

/// A pid means the same process only under the same kernel (boot id) and in the same pid namespace.
struct ProcessIdentity {
  std::array<std::byte, 16> boot_id{};  // all zero: unknown
  std::uint64_t pid_namespace = 0;      // inode; 0: unknown
  std::uint32_t pid = 0;

  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
  /// True if the pid of `other` is valid here.
  bool shares_pids_with(const ProcessIdentity& other) const {
    return boot_id != std::array<std::byte, 16>{} && pid_namespace != 0 && boot_id == other.boot_id &&
           pid_namespace == other.pid_namespace;
  }
};

/// The identity of this process. Parts that /proc does not show stay unknown, which is not an error.
ProcessIdentity identity_of_this_process();

/// The identity as a word that parse_process() reads.
std::string to_text(const ProcessIdentity& process);
/// The identity in `text`; if the text makes no sense, one that no process can watch.
ProcessIdentity parse_process(std::string_view text);

/// True if the process does not exist any more, or has ended and only waits for its parent to collect it.
/// False if that cannot be found out.
bool has_ended(std::uint32_t pid);

/// A descriptor that becomes readable when the process ends. Code peer_lost if it has ended already.
Result<Fd> watch_process(std::uint32_t pid);

}  // namespace dabke::links
