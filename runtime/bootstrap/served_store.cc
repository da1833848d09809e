#include "runtime/bootstrap/served_store.h"

#include <pthread.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "runtime/base/hmac.h"
#include "runtime/bootstrap/rendezvous_server.h"
#include "runtime/transport/job_secret.h"
#include "runtime/transport/network.h"

namespace dabke {
namespace {

/// "10.0.0.2:0" without the port.
std::string host_part(const SocketAddress& address) {
  std::string text = address.to_string();
  text.resize(text.rfind(':'));
  return text.starts_with('[') ? text.substr(1, text.size() - 2) : text;
}

struct Served {
  StoreUse use;
  std::string address;
  ServedStore store;
  std::unique_ptr<RendezvousServer> server;
};

struct Servers {
  std::mutex mutex;  // also held while the process forks
  std::vector<Served> all;
};

Servers& servers() {
  static Servers servers;
  return servers;
}

/// The child of a fork must not hold the sockets, or the ranks could not see that this process has died.
/// The threads do not exist there, so the servers can never be destroyed.
void leave_in_child() {
  for (Served& served : servers().all) served.server.release()->close_in_child();
  servers().all.clear();
  servers().mutex.unlock();
}

/// It must have ended before OpenSSL, with which it checks every request, cleans up at the exit of the
/// process. OpenSSL arranges for that when it is first used, and what was arranged last comes first.
void serve_until_exit(Served served) {
  (void)hmac_sha256({}, {});
  static const int watches_forks =
      ::pthread_atfork([] { servers().mutex.lock(); }, [] { servers().mutex.unlock(); }, leave_in_child);
  (void)watches_forks;
  const std::lock_guard lock(servers().mutex);
  servers().all.push_back(std::move(served));
}

}  // namespace

Result<ServedStore> serve_store(const Config& config, const std::vector<std::string>& hosts, StoreUse use) {
  World world;
  world.size = static_cast<int>(hosts.size());
  world.hosts = hosts;
  DABKE_ASSIGN_OR_RETURN(const SocketAddress chosen, choose_address(config, world, ""));
  const std::string address = host_part(chosen);
  if (use == StoreUse::of_many_jobs) {
    const std::lock_guard lock(servers().mutex);
    const auto known = std::ranges::find_if(
        servers().all, [&](const Served& one) { return one.use == use && one.address == address; });
    if (known != servers().all.end()) return known->store;
  }
  DABKE_ASSIGN_OR_RETURN(const JobSecret secret, random_job_secret());
  DABKE_ASSIGN_OR_RETURN(std::unique_ptr<RendezvousServer> server,
                         RendezvousServer::listen(address, secret.id, secret.key));
  DABKE_RETURN_IF_ERROR(server->start());
  ServedStore store{server->url(), to_hex(secret.id), to_hex(secret.key)};
  serve_until_exit({use, address, store, std::move(server)});
  return store;
}

}  // namespace dabke
