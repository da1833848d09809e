#include "runtime/links/frame.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "runtime/links/little_endian.h"
#include "tests/runtime/links/ranks.h"

using namespace dabke;
using namespace dabke::test;
using Catch::Contains;

namespace {

class Collected final : public links::FrameSink {
 public:
  void on_frame(std::span<const std::byte> frame) override { frames.push_back(text_of(frame)); }
  std::vector<std::string> frames;
};

void append_frame(std::string& stream, std::string_view frame) {
  stream += text_of(links::frame_header(frame.size()));
  stream += frame;
}

/// Feeds the stream in pieces of random length.
Status feed(links::FrameDecoder& decoder, std::string_view stream, links::FrameSink& sink,
            std::mt19937& random, std::size_t most) {
  while (!stream.empty()) {
    const auto room = decoder.writable();
    const std::size_t count = std::min({room.size(), stream.size(), 1 + random() % most});
    std::memcpy(room.data(), stream.data(), count);
    decoder.commit(count);
    stream.remove_prefix(count);
    DABKE_RETURN_IF_ERROR(decoder.deliver(sink));
  }
  return {};
}

}  // namespace

TEST_CASE("frames come out as they went in, whatever pieces the stream comes in") {
  std::mt19937 random(1);
  for (const std::size_t most : {1u, 3u, 100u, 100'000u}) {
    std::vector<std::string> sent;
    std::string stream;
    for (const std::size_t length : {0u, 1u, 4u, 5u, 4096u, 0u, 70'000u, 3u, 300'000u, 17u}) {
      std::string frame(length, '\0');
      for (auto& c : frame) c = static_cast<char>(random());
      append_frame(stream, frame);
      sent.push_back(std::move(frame));
    }
    links::FrameDecoder decoder;
    Collected seen;
    REQUIRE(feed(decoder, stream, seen, random, most).is_ok());
    CHECK(seen.frames == sent);
    CHECK_FALSE(decoder.mid_frame());
  }
}

TEST_CASE("a length above the limit is an error that says so") {
  links::FrameDecoder decoder;
  Collected seen;
  std::mt19937 random(1);
  std::string stream;
  append_frame(stream, "good");
  stream += text_of(links::frame_header(links::kMaxFrameBytes + 1));
  const Status status = feed(decoder, stream, seen, random, 1000);
  CHECK(seen.frames == std::vector<std::string>{"good"});
  CHECK_THAT(status.message(), Contains(std::to_string(links::kMaxFrameBytes + 1)) &&
                                   Contains(std::to_string(links::kMaxFrameBytes)));
}

TEST_CASE("bytes that only begin like a length are an error at once, and not waited for") {
  links::FrameDecoder decoder;
  Collected seen;
  std::mt19937 random(1);
  std::string stream;
  append_frame(stream, "good");
  std::string header = text_of(links::frame_header(100));
  header[5] = static_cast<char>(header[5] ^ 1);
  const Status status = feed(decoder, stream + header, seen, random, 1000);
  CHECK(seen.frames == std::vector<std::string>{"good"});
  CHECK(status.code() == Code::transport);
  CHECK_THAT(status.message(), Contains("not a message"));
}

TEST_CASE("a length alone takes no memory") {
  links::FrameDecoder decoder;
  Collected seen;
  std::mt19937 random(1);
  REQUIRE(feed(decoder, text_of(links::frame_header(links::kMaxFrameBytes)) + std::string(100, 'x'), seen,
               random, 1000)
              .is_ok());
  CHECK(decoder.writable().size() < 100'000);
  CHECK(decoder.mid_frame());
}

TEST_CASE("random bytes in the frame decoder end in frames or an error") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string stream(random() % 20'000, '\0');
    for (auto& c : stream) c = random() % 3 == 0 ? static_cast<char>(random()) : '\0';
    links::FrameDecoder decoder;
    Collected seen;
    const Status status = feed(decoder, stream, seen, random, 5000);
    std::size_t taken = 0;
    for (const auto& frame : seen.frames) taken += frame.size() + links::kFrameHeaderBytes;
    CHECK(taken <= stream.size());
    CHECK((status.is_ok() || status.code() == Code::transport));
  }
}

TEST_CASE("a queue gives back what it got, in order, and lets go of giant memory") {
  links::ByteQueue queue;
  std::mt19937 random(3);
  unsigned char next_in = 0, next_out = 0;
  bool in_order = true;
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::byte> bytes(random() % 3000);
    for (auto& byte : bytes) byte = static_cast<std::byte>(next_in++);
    queue.append(bytes);
    const std::size_t taken = std::min<std::size_t>(queue.size(), random() % 3100);
    for (const std::byte byte : queue.readable().first(taken))
      in_order = in_order && byte == static_cast<std::byte>(next_out++);
    queue.consume(taken);
  }
  CHECK(in_order);
  queue.append(std::vector<std::byte>(5 << 20));
  queue.clear();
  CHECK(queue.empty());
  CHECK(queue.writable(1).size() < (1 << 20));
}
