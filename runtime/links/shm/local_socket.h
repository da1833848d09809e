// Unix-domain sockets between processes of one host. Their names are abstract: they are in no directory, and
// end with the process.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/threads/owned.h"

namespace dabke::shm {

/// Non-blocking, CLOEXEC. Accept with tcp_accept(), which needs nothing of TCP.
Result<Fd> local_listen(const std::string& name);
/// Connected when it returns. Fails if nobody in this network namespace listens.
Result<Fd> local_connect(const std::string& name);
/// Checks that the process at the other end runs as our user. The error names its user.
Status check_same_user(int socket);

/// A socket for datagrams from any process, under a name that the kernel chooses and `name` receives. The
/// datagrams themselves must prove who sent them. Non-blocking, CLOEXEC.
Result<Fd> local_datagrams(std::string& name);
/// A socket that sends datagrams to the socket of that name.
Result<Fd> local_datagrams_to(const std::string& name);

/// Sends all of `bytes` and the descriptors with them, in one step. Code peer_lost if the other end has
/// closed.
Status send_descriptors(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors);

struct ReceivedDescriptors {
  std::size_t bytes = 0;  // 0: nothing has come yet
  std::vector<Fd> descriptors;
};
/// Receives at most `into.size()` bytes and the descriptors that came with them. Fails at the end of the
/// stream.
Result<ReceivedDescriptors> receive_descriptors(int socket, std::span<std::byte> into);

}  // namespace dabke::shm
