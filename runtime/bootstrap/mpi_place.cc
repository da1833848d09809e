#include "runtime/bootstrap/mpi_place.h"

#include <pthread.h>

#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "runtime/base/hmac.h"
#include "runtime/bootstrap/rendezvous_server.h"
#include "runtime/transport/module_loader.h"
#include "runtime/transport/network.h"

namespace dabke {
namespace {

/// "10.0.0.2:0" without the port.
std::string host_part(const SocketAddress& address) {
  std::string text = address.to_string();
  text.resize(text.rfind(':'));
  return text.starts_with('[') ? text.substr(1, text.size() - 2) : text;
}

struct Servers {
  std::mutex mutex;  // also held while the process forks
  std::vector<std::unique_ptr<RendezvousServer>> all;
};

Servers& servers() {
  static Servers servers;
  return servers;
}

/// The child of a fork must not hold the sockets, or the ranks could not see that this process has died.
/// The threads do not exist there, so the servers can never be destroyed.
void leave_in_child() {
  for (auto& server : servers().all) server.release()->close_in_child();
  servers().all.clear();
  servers().mutex.unlock();
}

/// Other ranks may still be meeting when this one has shut down; so it serves as long as the process lives.
/// It must have ended before OpenSSL, with which it checks every request, cleans up at the exit of the
/// process. OpenSSL arranges for that when it is first used, and what was arranged last comes first.
void serve_until_exit(std::unique_ptr<RendezvousServer> server) {
  (void)hmac_sha256({}, {});
  static const int watches_forks =
      ::pthread_atfork([] { servers().mutex.lock(); }, [] { servers().mutex.unlock(); }, leave_in_child);
  (void)watches_forks;
  const std::lock_guard lock(servers().mutex);
  servers().all.push_back(std::move(server));
}

/// What rank 0 does: it serves the store, and tells what the others must know of it.
Result<std::string> serve(const Config& config, const std::vector<std::string>& hosts) {
  World world;
  world.size = static_cast<int>(hosts.size());
  world.hosts = hosts;
  DABKE_ASSIGN_OR_RETURN(const SocketAddress address, choose_address(config, world, ""));
  DABKE_ASSIGN_OR_RETURN(const JobSecret secret, random_job_secret());
  DABKE_ASSIGN_OR_RETURN(std::unique_ptr<RendezvousServer> server,
                         RendezvousServer::listen(host_part(address), secret.id, secret.key));
  DABKE_RETURN_IF_ERROR(server->start());
  std::string note = fmt::format("{}\n{}\n{}", server->url(), to_hex(secret.id), to_hex(secret.key));
  serve_until_exit(std::move(server));
  return note;
}

}  // namespace

Result<std::optional<MpiStart>> start_from_mpi(const Config& config, const Environment& environment,
                                               const void* comm, const std::string& host,
                                               TimePoint deadline) {
  const MpiTraces traces = find_mpi(environment);
  if (comm != nullptr && traces.loaded.empty()) {
    return Status(
        Code::invalid_argument,
        "dabke_init: mpi_comm is given, but neither MPICH nor Open MPI is in this process; link the "
        "application to the shared library of one of them, or leave mpi_comm NULL");
  }
  if (comm == nullptr && traces.launcher.empty() && !traces.is_initialised) return std::optional<MpiStart>();
  auto loaded = load_mpi(config, traces);
  if (!loaded) {
    const auto count = traces.is_initialised ? std::nullopt : environment(traces.variable);
    // Alone; MPI is not needed for that.
    if (comm == nullptr && count && *count == "1") return std::optional<MpiStart>();
    return Status(loaded.status().code(),
                  fmt::format("{}, but {}; or start with dabkerun, which needs no MPI",
                              comm != nullptr ? std::string("mpi_comm is given")
                              : traces.is_initialised
                                  ? std::string("the application has initialised MPI")
                                  : fmt::format("an MPI launcher has started this process ({} is {})",
                                                traces.variable, count.value_or("")),
                              loaded.status().message()));
  }
  MpiSession& session = **loaded;
  const auto note = [&](const std::vector<std::string>& hosts) { return serve(config, hosts); };
  DABKE_ASSIGN_OR_RETURN(const MpiJoined joined, session.join(comm, host, note, deadline));
  MpiStart start{&session, joined.rank, joined.size, {}, {}, {}};
  const auto first = joined.note.find('\n');
  const auto second = joined.note.find('\n', first + 1);
  if (first == std::string::npos || second == std::string::npos)
    return Status(Code::internal, "rank 0 sent a note over MPI that makes no sense");
  start.rendezvous = joined.note.substr(0, first);
  start.job_id = joined.note.substr(first + 1, second - first - 1);
  start.job_key = joined.note.substr(second + 1);
  return std::optional(std::move(start));
}

}  // namespace dabke
