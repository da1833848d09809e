#include "launcher/agent/store_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include <fmt/format.h>

#include "launcher/agent_protocol/protocol.h"

namespace dabke::launcher {

Result<std::unique_ptr<StoreProxy>> StoreProxy::open(FrameChannel& channel) {
  Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (!listener || ::bind(listener.get(), generic, size) != 0 || ::listen(listener.get(), SOMAXCONN) != 0 ||
      ::getsockname(listener.get(), generic, &size) != 0)
    return system_error("cannot listen on 127.0.0.1 for the ranks of this host", errno);
  std::string url = fmt::format("http://127.0.0.1:{}", ntohs(address.sin_port));
  return std::unique_ptr<StoreProxy>(new StoreProxy(channel, std::move(listener), std::move(url)));
}

void StoreProxy::add_poll_entries(std::vector<pollfd>& entries) const {
  entries.push_back({listener_.get(), POLLIN, 0});
  connections_.add_poll_entries(entries);
}

void StoreProxy::handle(const pollfd& entry) {
  if (entry.revents == 0) return;
  if (entry.fd == listener_.get()) return accept();
  connections_.handle(entry);
}

void StoreProxy::accept() {
  Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return;
  channel_.send(static_cast<std::uint8_t>(FrameKind::store_open), to_wire(StoreMessage{++next_, {}}));
  connections_.add(next_, std::move(socket));
}

}  // namespace dabke::launcher
