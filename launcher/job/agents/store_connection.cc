#include "launcher/job/agents/store_connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <charconv>
#include <cstdint>

namespace dabke::launcher {

Fd connect_to_store(const std::string& url) {
  const auto colon = url.rfind(':');
  std::uint16_t port = 0;
  std::from_chars(url.data() + colon + 1, url.data() + url.size(), port);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // A connection that is not established yet on return is established when the socket becomes writable.
  if (socket) (void)::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  return socket;
}

}  // namespace dabke::launcher
