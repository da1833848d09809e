#include "runtime/core/last_words.h"

#include <fmt/format.h>

#include "runtime/base/threads/exceptions.h"
#include "runtime/negotiation/wire/wire.h"

namespace dabke::core {
namespace {

// The memory that the end of a job uses when none is left. It is never touched, so it costs nothing until
// then. It is large enough to be a mapping of its own, so that freeing it helps every thread.
constexpr std::size_t kReserveBytes = 1 << 20;

}  // namespace

void LastWords::prepare(std::vector<Rank> neighbours) {
  neighbours_ = std::move(neighbours);
  reserve_ = std::make_unique_for_overwrite<std::byte[]>(kReserveBytes);
  wire::encode(wire::FailMessage{Code::out_of_memory, of_this_rank(out_of_memory()).message()},
               out_of_memory_);
}

Status LastWords::of_this_rank(const Status& cause) const {
  return {cause.code(), fmt::format("{}: {}", world_.name_of(world_.rank), cause.message())};
}

void LastWords::send(const Status& cause) {
  std::vector<std::byte> message;
  wire::encode(wire::FailMessage{cause.code(), of_this_rank(cause).message()}, message);
  send_to_all(message);
}

void LastWords::send_out_of_memory() { send_to_all(out_of_memory_); }

void LastWords::send_to_all(std::span<const std::byte> message) {
  for (const Rank peer : neighbours_) channel_.send(peer, message);
}

}  // namespace dabke::core
