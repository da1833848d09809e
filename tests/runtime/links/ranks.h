// Helpers for tests of ranks over links: worlds, handshakes, addresses, and bytes as text.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/hmac.h"
#include "runtime/base/world.h"
#include "runtime/links/handshake.h"
#include "runtime/links/network.h"

namespace dabke::test {

/// A world of `size` ranks on one host, with a fixed job and key.
inline World world_of(Rank rank, int size) {
  World world;
  world.job_id.fill(std::byte{7});
  world.job_key.fill(std::byte{42});
  world.rank = rank;
  world.size = size;
  world.local_rank = rank;
  world.local_size = size;
  world.hosts.assign(static_cast<std::size_t>(size), "host-a");
  return world;
}

inline links::Handshake::Self self_of(const World& world,
                                      links::ProcessIdentity process = links::identity_of_this_process()) {
  return {world.job_id, world.job_key, world.epoch, world.rank, process};
}

inline std::vector<Rank> all_but(Rank self, int size) {
  std::vector<Rank> others;
  for (Rank rank = 0; rank < size; ++rank) {
    if (rank != self) others.push_back(rank);
  }
  return others;
}

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }
inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// An address of this host on which no other process takes a port, even after it is closed.
inline links::SocketAddress address_of_our_own() {
  const int process = ::getpid();
  return links::SocketAddress::of_host("127.83." + std::to_string(process >> 8 & 255) + "." +
                                       std::to_string(process & 255))
      .take();
}

/// Counts the open descriptors of this process.
inline std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

}  // namespace dabke::test
