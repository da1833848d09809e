// The hosts that a job may use, and how many ranks each takes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace dabke::launcher {

/// More than any job has; so many slots in all say only that there is room.
inline constexpr int kMostSlots = 1'000'000;

/// The slots of both, at most kMostSlots.
int add_slots(int a, int b);

struct Host {
  std::string name;
  int slots = 1;
  friend bool operator==(const Host&, const Host&) = default;
};

/// "a:4,b:2"; also "a" (one slot), "[::1]:2" and "[fe80::1%eth0]". `source` (the flag's name) goes into the error.
Result<std::vector<Host>> parse_host_list(std::string_view text, std::string_view source);
/// Lines "name slots=N" (also with max_slots=N, which changes nothing), "name:N" or "name"; empty lines and those after '#' do not count. `path` goes into
/// the error.
Result<std::vector<Host>> parse_hostfile(std::string_view text, std::string_view path);
/// `source` (a flag or a variable) goes into the error, before the path.
Result<std::vector<Host>> read_hostfile(const std::string& path, std::string_view source);

/// Hosts named twice become one with the slots of both, at the place of the first.
std::vector<Host> merge_hosts(const std::vector<Host>& hosts);

/// Of merged hosts those that so many ranks fill; all for 0 ranks, or where they do not suffice. A file may name very many
/// that are not used, and to look each of them up takes its time.
std::vector<Host> first_hosts(std::vector<Host> hosts, int ranks);

std::string this_host_name();
/// True by name, or because the name resolves to an address of this machine.
bool is_this_host(const std::string& name);

/// The numbers of those that are this host, which are looked up at once: a name service may take seconds for each. One
/// thread must be all that the process has.
std::vector<std::size_t> find_this_host(const std::vector<Host>& hosts);

struct MergedHosts {
  std::vector<Host> hosts;
  std::string here;                // which of them is this one; empty: none
  std::vector<std::string> names;  // all that are this one, if there are several
};

/// Hosts as merge_hosts() has them; those that are this one become one, though a job may name it in several ways. Its
/// name is the first one given.
MergedHosts merge_this_host(const std::vector<Host>& hosts);

/// What the user is told of names that lead to one machine. The first is that of its ranks.
std::string one_machine_notice(const std::vector<std::string>& names);

}  // namespace dabke::launcher
