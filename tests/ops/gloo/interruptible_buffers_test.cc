// Waits that Gloo itself would never end.
#include <atomic>
#include <stdexcept>
#include <thread>

#include <gloo/transport/unbound_buffer.h>
#include <catch2/catch.hpp>

#include "ops/gloo/gloo_context.h"
#include "ops/gloo/gloo_device.h"

namespace dabke::test {
namespace {

Status never() { return Status::ok(); }

struct End {
  explicit End(int rank) : set{kWorldSet, {0, 1}, rank} {
    auto address = links::SocketAddress::parse("127.0.0.1:0");
    REQUIRE(address.is_ok());
    auto opened = ops::GlooDevice::open(*address, guard);
    REQUIRE(opened.is_ok());
    device = opened.take();
    context = std::make_unique<ops::GlooContext>(*device, set, guard, Duration::zero());
  }
  ForkGuard guard;
  ProcessSetInfo set;
  std::unique_ptr<ops::GlooDevice> device;
  std::unique_ptr<ops::GlooContext> context;
};

}  // namespace

TEST_CASE(
    "a wait for a send whose connection broke while it was written can be interrupted, though Gloo forgets "
    "it") {
  const auto store = store::make_memory_store();
  // More than the sockets can buffer. The memory outlives Gloo's threads. ~UnboundBuffer
  // waits until they release the memory, but by a count that ThreadSanitizer does not see
  // in a library without instrumentation.
  std::vector<char> memory(64 << 20);
  End here(0);
  End there(1);
  Status connected;
  {
    const std::jthread other(
        [&] { connected = there.context->connect(*store, "k", deadline_after(30), never); });
    REQUIRE(here.context->connect(*store, "k", deadline_after(30), never).is_ok());
  }
  REQUIRE(connected.is_ok());
  const auto out = here.context->gloo()->createUnboundBuffer(memory.data(), memory.size());
  {
    const auto in = there.context->gloo()->createUnboundBuffer(memory.data(), memory.size());
    there.device->park();  // nothing is read, so the write gets stuck
    out->send(1, 1, 0, memory.size());
    in->recv(0, 1, 0, memory.size());  // the later call of the two, so that Gloo's thread writes
  }
  there.device->resume();
  there.context.reset();

  std::atomic<bool> over{false};
  bool thrown = false;
  {
    const std::jthread waiting([&] {
      try {
        out->waitSend();
      } catch (const std::exception&) {
        thrown = true;
      }
      over = true;
    });
    while (!over) here.context->interrupt();
  }
  CHECK(thrown);
}

// Only ThreadSanitizer reports a violation.
TEST_CASE("what a run that was cut off has received into may be freed at once, as Gloo frees its own") {
  const auto store = store::make_memory_store();
  constexpr std::size_t kBytes = std::size_t{16} << 20;  // more than the sockets can buffer
  const std::vector<char> sent(kBytes);
  End here(0);
  End there(1);
  Status connected;
  {
    const std::jthread other(
        [&] { connected = there.context->connect(*store, "k", deadline_after(30), never); });
    REQUIRE(here.context->connect(*store, "k", deadline_after(30), never).is_ok());
  }
  REQUIRE(connected.is_ok());
  const auto out = there.context->gloo()->createUnboundBuffer(const_cast<char*>(sent.data()), kBytes);
  bool cut_off = false;
  try {
    const auto memory = std::make_unique<char[]>(kBytes);
    const auto in = here.context->gloo()->createUnboundBuffer(memory.get(), kBytes);
    in->recv(1, 1, 0, kBytes);
    out->send(0, 1, 0, kBytes);  // some of it arrives meanwhile
    throw std::runtime_error("cut off");
  } catch (const std::runtime_error&) {
    cut_off = true;
  }
  CHECK(cut_off);
}

}  // namespace dabke::test
