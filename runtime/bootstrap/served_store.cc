#include "runtime/bootstrap/served_store.h"

#include <pthread.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "runtime/base/hmac.h"
#include "runtime/links/interfaces.h"
#include "runtime/store/job_secret.h"
#include "runtime/store/rendezvous_server.h"

namespace dabke::bootstrap {
namespace {

struct Served {
  StoreUse use;
  std::vector<std::string> addresses;
  ServedStore store;
  std::unique_ptr<store::RendezvousServer> server;
};

struct Servers {
  std::mutex mutex;  // also held while the process forks
  std::vector<Served> all;
};

Servers& servers() {
  static Servers servers;
  return servers;
}

/// A forked child must not hold the sockets, because then the other ranks could not see that this process has
/// died. The threads do not exist in the child, so it can never destroy the servers.
void leave_in_child() {
  for (Served& served : servers().all) served.server.release()->close_in_child();
  servers().all.clear();
  servers().mutex.unlock();
}

/// Keeps the server until the process exits. The server checks every request with OpenSSL, so it must end
/// before OpenSSL cleans up. OpenSSL registers its cleanup at its first use, if at all, and the last handler
/// registered runs first.
void serve_until_exit(Served served) {
  (void)hmac_sha256({}, {});
  static const int watches_forks =
      ::pthread_atfork([] { servers().mutex.lock(); }, [] { servers().mutex.unlock(); }, leave_in_child);
  (void)watches_forks;
  const std::lock_guard lock(servers().mutex);
  servers().all.push_back(std::move(served));
}

/// The addresses that the ranks get. There is no store yet in which the hosts could agree on one, so they get
/// all.
Result<std::vector<std::string>> addresses_for(const Config& config, const std::vector<std::string>& hosts) {
  std::vector<std::string> addresses;
  if (std::ranges::all_of(hosts, [&](const auto& host) { return host == hosts.front(); })) {
    DABKE_ASSIGN_OR_RETURN(const links::SocketAddress address, links::address_on_one_host(config));
    addresses.push_back(address.host());
    return addresses;
  }
  DABKE_ASSIGN_OR_RETURN(const std::vector<links::HostAddress> candidates,
                         links::candidate_addresses(config, ""));
  for (const links::HostAddress& each : candidates) addresses.push_back(each.address.host());
  return addresses;
}

}  // namespace

Result<ServedStore> serve_store(const Config& config, const std::vector<std::string>& hosts, StoreUse use) {
  DABKE_ASSIGN_OR_RETURN(const std::vector<std::string> addresses, addresses_for(config, hosts));
  if (use == StoreUse::of_many_jobs) {
    const std::lock_guard lock(servers().mutex);
    const auto known = std::ranges::find_if(
        servers().all, [&](const Served& one) { return one.use == use && one.addresses == addresses; });
    if (known != servers().all.end()) return known->store;
  }
  DABKE_ASSIGN_OR_RETURN(const store::JobSecret secret, store::random_job_secret());
  DABKE_ASSIGN_OR_RETURN(std::unique_ptr<store::RendezvousServer> server,
                         store::RendezvousServer::listen(addresses, secret.id, secret.key));
  DABKE_RETURN_IF_ERROR(server->start());
  ServedStore store{server->url(), to_hex(secret.id), to_hex(secret.key)};
  serve_until_exit({use, addresses, store, std::move(server)});
  return store;
}

}  // namespace dabke::bootstrap
