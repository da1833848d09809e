// The hosts that a job may use, and the number of ranks that each takes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace dabke::launcher {

/// More slots than any job needs. A sum of slots stops there.
inline constexpr int kMostSlots = 1'000'000;

/// Returns the slots of both, at most kMostSlots.
int add_slots(int a, int b);

struct Host {
  std::string name;
  int slots = 1;
  friend bool operator==(const Host&, const Host&) = default;
};

/// Parses "a:4,b:2"; also "a" (one slot), "[::1]:2" and "[fe80::1%eth0]". `source` (the flag's name) goes
/// into the error.
Result<std::vector<Host>> parse_host_list(std::string_view text, std::string_view source);
/// Parses lines "name slots=N", "name:N" or "name". A max_slots=N has no effect. Empty lines and text after
/// '#' are ignored. `path` goes into the error. A host without a number has `slots` slots.
Result<std::vector<Host>> parse_hostfile(std::string_view text, std::string_view path, int slots = 1);
/// `source` (a flag or a variable) goes into the error, before the path.
Result<std::vector<Host>> read_hostfile(const std::string& path, std::string_view source);

/// Merges hosts that are named twice into one with the slots of both, at the place of the first.
std::vector<Host> merge_hosts(const std::vector<Host>& hosts);

/// Returns the merged hosts that `ranks` ranks fill; all hosts if `ranks` is 0, or if the slots do not
/// suffice. A file may name very many unused hosts, and resolving each of them takes time.
std::vector<Host> first_hosts(std::vector<Host> hosts, int ranks);

std::string this_host_name();
/// True if the name is this host's, or resolves to an address of this machine.
bool is_this_host(const std::string& name);

/// Returns the indices of the hosts that are this one. The names are resolved at the same time: a name
/// service may take seconds for each. The process must have only one thread.
std::vector<std::size_t> find_this_host(const std::vector<Host>& hosts);

struct MergedHosts {
  std::vector<Host> hosts;
  std::string here;                // the name of this host; empty: it is not listed
  std::vector<std::string> names;  // all names of this host, if there are several
};

/// Merges the hosts that are this one into one, because a job may name it in several ways. Its name is the
/// first one given. `hosts` are as returned by merge_hosts().
MergedHosts merge_this_host(const std::vector<Host>& hosts);

/// Returns the notice for the user that several names are one machine. Its ranks use the first name.
std::string one_machine_notice(const std::vector<std::string>& names);

}  // namespace dabke::launcher
