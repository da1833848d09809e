#include "runtime/links/shm/local_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace dabke::shm {
namespace {

constexpr std::size_t kMostDescriptors = 8;

struct LocalAddress {
  sockaddr_un address{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

Result<LocalAddress> address_of(const std::string& name) {
  LocalAddress local;
  local.address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof local.address.sun_path)
    return Status(Code::invalid_argument,
                  fmt::format("'{}' is too long for the name of a local socket", name));
  // The zero byte in front makes the name abstract.
  std::memcpy(local.address.sun_path + 1, name.data(), name.size());
  local.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return local;
}

Result<Fd> local_socket(int type = SOCK_STREAM) {
  Fd fd(::socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_error("socket(AF_UNIX)", errno);
  return fd;
}

}  // namespace

Result<Fd> local_listen(const std::string& name) {
  DABKE_ASSIGN_OR_RETURN(const LocalAddress local, address_of(name));
  DABKE_ASSIGN_OR_RETURN(Fd fd, local_socket());
  if (::bind(fd.get(), local.get(), local.length) != 0 || ::listen(fd.get(), SOMAXCONN) != 0)
    return system_error(fmt::format("cannot listen on the local socket @{}", name), errno);
  return fd;
}

Result<Fd> local_connect(const std::string& name) {
  DABKE_ASSIGN_OR_RETURN(const LocalAddress local, address_of(name));
  DABKE_ASSIGN_OR_RETURN(Fd fd, local_socket());
  if (::connect(fd.get(), local.get(), local.length) == 0) return fd;
  return system_error(fmt::format("cannot connect to the local socket @{}", name), errno);
}

Result<Fd> local_datagrams(std::string& name) {
  DABKE_ASSIGN_OR_RETURN(Fd fd, local_socket(SOCK_DGRAM));
  LocalAddress local;
  local.address.sun_family = AF_UNIX;
  // An address with nothing but a family asks the kernel for a free abstract name.
  if (::bind(fd.get(), local.get(), sizeof local.address.sun_family) != 0)
    return system_error("bind(AF_UNIX)", errno);
  local.length = sizeof local.address;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local.address), &local.length) != 0)
    return system_error("getsockname(AF_UNIX)", errno);
  name.assign(local.address.sun_path + 1, local.length - offsetof(sockaddr_un, sun_path) - 1);
  return fd;
}

Result<Fd> local_datagrams_to(const std::string& name) {
  DABKE_ASSIGN_OR_RETURN(const LocalAddress local, address_of(name));
  DABKE_ASSIGN_OR_RETURN(Fd fd, local_socket(SOCK_DGRAM));
  if (::connect(fd.get(), local.get(), local.length) == 0) return fd;
  return system_error(fmt::format("cannot reach the local socket @{}", name), errno);
}

Status check_same_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
    return system_error("getsockopt(SO_PEERCRED)", errno);
  if (peer.uid == ::geteuid()) return {};
  return {Code::transport,
          fmt::format("its process {} runs as user {}, ours as {}", peer.pid, peer.uid, ::geteuid())};
}

Status send_descriptors(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors) {
  if (descriptors.size() > kMostDescriptors)
    return {Code::invalid_argument, "too many descriptors in one message"};
  alignas(cmsghdr) std::byte space[CMSG_SPACE(kMostDescriptors * sizeof(int))]{};
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  ssize_t sent = 0;
  do sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
    return {Code::peer_lost, "passing descriptors failed: the peer closed its connection"};
  if (sent < 0) return system_error("cannot pass descriptors", errno);
  if (static_cast<std::size_t>(sent) != bytes.size())
    return {Code::transport, "only some of the descriptors were passed"};
  return {};
}

Result<ReceivedDescriptors> receive_descriptors(int socket, std::span<std::byte> into) {
  alignas(cmsghdr) std::byte space[CMSG_SPACE(kMostDescriptors * sizeof(int))]{};
  iovec part{into.data(), into.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  ReceivedDescriptors received;
  received.descriptors.reserve(kMostDescriptors);  // early, because descriptors would leak without memory
  ssize_t got = 0;
  do got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got < 0 && errno == EAGAIN) return received;
  if (got < 0) return system_error("cannot receive descriptors", errno);
  // Owned first, whatever is wrong with the message, because the descriptors would leak otherwise.
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      received.descriptors.emplace_back(fd);
    }
  }
  if (got == 0) return Status(Code::peer_lost, "it closed the connection");
  if ((message.msg_flags & MSG_CTRUNC) != 0)
    return Status(Code::transport,
                  "passed descriptors were cut off; raise the limit on open files (ulimit -n)");
  received.bytes = static_cast<std::size_t>(got);
  return received;
}

}  // namespace dabke::shm
