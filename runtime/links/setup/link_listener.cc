#include "runtime/links/setup/link_listener.h"

#include <fmt/format.h>

#include "runtime/links/handshake.h"
#include "runtime/links/handshake_io.h"
#include "runtime/links/shm/local_socket.h"
#include "runtime/links/tcp_link.h"

namespace dabke::links {

Status LinkListener::listen(bool with_local) {
  DABKE_ASSIGN_OR_RETURN(Fd fd, tcp_listen(setup_.listen_at));
  tcp_ = GuardedFd(std::move(fd), setup_.guard);
  DABKE_ASSIGN_OR_RETURN(const SocketAddress bound, SocketAddress::local_of(tcp_.get()));
  if (with_local) {
    if (auto status = listen_locally(bound.to_string()); !status.is_ok())
      setup_.log.warning("rank {} offers no shared memory: {}", setup_.world.rank, status.message());
  }
  return setup_.store->set(fmt::format("{}/{}", setup_.prefix, setup_.world.rank), bound.to_string());
}

Status LinkListener::listen_locally(const std::string& address) {
  DABKE_ASSIGN_OR_RETURN(const std::string name, local_name(setup_, setup_.world.rank, address));
  DABKE_ASSIGN_OR_RETURN(Fd fd, shm::local_listen(name));
  local_ = GuardedFd(std::move(fd), setup_.guard);
  return {};
}

Result<std::string> local_name(const LinkSetup& setup, Rank listener, const std::string& address) {
  const World& world = setup.world;
  const std::string job = to_hex(world.job_id);
  const std::string text =
      fmt::format("{} {} {} {} {}", job, world.epoch, listener, address, to_hex(setup.self.boot_id));
  DABKE_ASSIGN_OR_RETURN(const Digest digest, hmac_sha256(world.job_key, std::as_bytes(std::span(text))));
  return fmt::format("dabke/{}/{}/{}/{}", job, world.epoch, listener, to_hex(std::span(digest).first(12)));
}

}  // namespace dabke::links
