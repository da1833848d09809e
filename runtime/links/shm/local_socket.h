// Unix-domain sockets between processes of one host. Their names are abstract: they lie in no directory, and
// go with the process.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/threads/owned.h"

namespace dabke::shm {

/// Non-blocking, CLOEXEC. Accept with tcp_accept(), which asks nothing of TCP.
Result<Fd> local_listen(const std::string& name);
/// Connected when it returns; an error when nobody of this network namespace listens.
Result<Fd> local_connect(const std::string& name);
/// Whether the process at the other end runs as our user; else an error that says as whom.
Status check_same_user(int socket);

/// A socket for datagrams from anybody, under a name that the kernel has chosen and `name` gets. Who may send
/// what is for the datagrams to prove. Non-blocking, CLOEXEC.
Result<Fd> local_datagrams(std::string& name);
/// Sends datagrams to the one of that name.
Result<Fd> local_datagrams_to(const std::string& name);

/// All of `bytes` and the descriptors with them, in one step. Code peer_lost where the other end has closed.
Status send_descriptors(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors);

struct ReceivedDescriptors {
  std::size_t bytes = 0;  // 0: nothing has come yet
  std::vector<Fd> descriptors;
};
/// Receives at most `into.size()` bytes and the descriptors that came with them. An error at the end of the
/// stream.
Result<ReceivedDescriptors> receive_descriptors(int socket, std::span<std::byte> into);

}  // namespace dabke::shm
