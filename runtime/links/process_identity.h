// The process at the other end, in terms that another process of the same host can watch.
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

/// As a word that parse_process() reads.
std::string to_text(const ProcessIdentity& process);
/// One that nobody can watch, where the text makes no sense.
ProcessIdentity parse_process(std::string_view text);

/// Whether there is no such process any more, or only what its parent has not asked for yet. False where that cannot be
/// told.
bool has_ended(std::uint32_t pid);

/// A descriptor that becomes readable when the process ends. Code peer_lost when it has ended already.
Result<Fd> watch_process(std::uint32_t pid);

}  // namespace dabke::links
