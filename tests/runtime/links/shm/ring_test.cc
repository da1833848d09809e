#include "runtime/links/shm/ring.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "runtime/links/shm/waiting.h"

using namespace dabke;
using Catch::Contains;

namespace {

std::byte nth(std::uint64_t i) { return static_cast<std::byte>((i * 2654435761u) >> 13); }

}  // namespace

TEST_CASE("a ring is a queue of bytes, whatever the sizes of reads and writes") {
  const auto memory = std::make_unique<shm::RingMemory>();
  shm::RingWriter writer(*memory);
  shm::RingReader reader(*memory);
  std::mt19937 random(3);
  std::uint64_t sent = 0, received = 0;
  bool right = true;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> bytes(random() % (random() % 8 == 0 ? 2 * shm::kRingBytes : 3000));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = nth(sent + i);
    const std::size_t free = shm::kRingBytes - static_cast<std::size_t>(sent - received);
    right = right && writer.room().take() == free;
    const std::size_t wrote = writer.write(bytes).take();
    right = right && wrote == std::min(free, bytes.size());
    sent += wrote;
    writer.show();
    right = right && !writer.reader_sleeps_on_it();
    std::vector<std::byte> into(random() % (2 * shm::kRingBytes));
    const std::size_t got = reader.read(into).take();
    right = right && got == std::min(into.size(), static_cast<std::size_t>(sent - received));
    for (std::size_t i = 0; i < got; ++i) right = right && into[i] == nth(received + i);
    received += got;
    right = right && !reader.publish();
    REQUIRE(right);
  }
}

TEST_CASE("two threads move a stream through a ring, each asleep at times, and no wake-up is lost") {
  const auto memory = std::make_unique<shm::RingMemory>();
  constexpr std::uint64_t kTotal = 8 << 20;
  std::atomic<int> reader_event = 0, writer_event = 0;  // as an eventfd between two processes
  const auto signal = [](std::atomic<int>& event) {
    ++event;
    event.notify_one();
  };
  bool right = true;
  {
    const std::jthread writing([&] {
      shm::RingWriter writer(*memory);
      std::mt19937 random(1);
      for (std::uint64_t sent = 0; sent < kTotal;) {
        const int before = writer_event;
        std::vector<std::byte> bytes(std::min<std::uint64_t>(1 + random() % 100'000, kTotal - sent));
        for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = nth(sent + i);
        const std::size_t wrote = writer.write(bytes).take();
        sent += wrote;
        writer.show();
        if (writer.reader_sleeps_on_it()) signal(reader_event);
        if (wrote > 0) continue;
        writer.declare_waiting();
        if (writer.room().take() == 0) writer_event.wait(before);
        (void)writer.was_woken();
      }
      if (writer.end()) signal(reader_event);
    });
    shm::RingReader reader(*memory);
    std::vector<std::byte> into(70'000);
    for (std::uint64_t received = 0; !reader.ended();) {
      const int before = reader_event;
      const std::size_t got = reader.read(into).take();
      for (std::size_t i = 0; i < got; ++i) right = right && into[i] == nth(received + i);
      received += got;
      if (reader.publish()) signal(writer_event);
      if (got > 0) continue;
      reader.declare_sleeping();
      if (!reader.ready()) reader_event.wait(before);
      (void)reader.was_woken();
    }
  }
  CHECK(right);
}

TEST_CASE("an impossible index is an error, for the reader and for the writer") {
  const auto memory = std::make_unique<shm::RingMemory>();
  shm::RingWriter writer(*memory);
  shm::RingReader reader(*memory);
  std::vector<std::byte> bytes(100);
  memory->written = GENERATE(std::uint64_t{shm::kRingBytes + 1}, ~std::uint64_t{0});
  CHECK(reader.ready());
  CHECK_THAT(reader.read(bytes).status().message(), Contains("is damaged"));
  memory->read = 1;  // a byte that was never written
  CHECK_THAT(writer.room().status().message(), Contains("is damaged"));
  CHECK_THAT(writer.write(bytes).status().message(), Contains("is damaged"));
}

TEST_CASE("each sleep on unread bytes is woken once") {
  const auto memory = std::make_unique<shm::RingMemory>();
  shm::RingWriter writer(*memory);
  shm::RingReader reader(*memory);
  reader.declare_sleeping();
  writer.show();
  CHECK_FALSE(writer.reader_sleeps_on_it());  // there is nothing to read
  std::byte byte{};
  CHECK(writer.write({&byte, 1}).is_ok());
  writer.show();
  CHECK(writer.reader_sleeps_on_it());
  CHECK_FALSE(writer.reader_sleeps_on_it());
  CHECK(reader.was_woken());
  reader.declare_sleeping();
  CHECK_FALSE(reader.was_woken());
  CHECK_FALSE(writer.end());
}
