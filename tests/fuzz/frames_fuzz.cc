// The messages between a launcher and an agent. Frames come out as they went in, however they are cut into
// pieces. A message that was read reads the same after it was written again.
#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "launcher/agent_protocol/frame_channel.h"
#include "launcher/agent_protocol/protocol.h"
#include "tests/fuzz/check.h"

namespace {

using namespace dabke;
using namespace dabke::launcher;

template <class Message>
void read_as(std::string_view content) {
  Message message;
  if (!from_wire(content, message)) return;
  const std::string written = to_wire(message);
  Message again;
  FUZZ_CHECK(from_wire(written, again) && to_wire(again) == written);
}

void read_as_any(std::string_view content) {
  read_as<PrepareMessage>(content);
  read_as<CommandMessage>(content);
  read_as<HoldMessage>(content);
  read_as<FailedMessage>(content);
  read_as<StartedMessage>(content);
  read_as<EndedMessage>(content);
  read_as<RankMessage>(content);
  read_as<TextMessage>(content);
  read_as<StatesMessage>(content);
  read_as<OutputMessage>(content);
  read_as<ClockMessage>(content);
  read_as<StoreMessage>(content);
}

struct Whole {
  std::uint8_t kind;
  std::string content;
  bool operator==(const Whole&) const = default;
};

/// A pipe has room for a whole input.
std::vector<Whole> frames_of(std::string_view bytes, std::size_t piece) {
  int ends[2];
  FUZZ_CHECK(::pipe2(ends, O_CLOEXEC) == 0);
  const Fd writer(ends[1]);
  FrameChannel channel(Fd(ends[0]), Fd(::open("/dev/null", O_WRONLY | O_CLOEXEC)));
  std::vector<Whole> frames;
  while (!bytes.empty() && !channel.is_broken()) {
    const std::string_view part = bytes.substr(0, piece);
    FUZZ_CHECK(::write(writer.get(), part.data(), part.size()) == static_cast<ssize_t>(part.size()));
    bytes.remove_prefix(part.size());
    FUZZ_CHECK(channel.read());
    while (const auto frame = channel.next()) frames.push_back({frame->kind, std::string(frame->content)});
  }
  return frames;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dabke::test::Input input(data, size);
  const std::size_t piece = 1 + input.below(64);
  const std::string_view bytes = input.rest();
  const std::vector<Whole> frames = frames_of(bytes, piece);
  FUZZ_CHECK(frames == frames_of(bytes, std::size_t{1} << 16));
  for (const Whole& frame : frames) read_as_any(frame.content);
  return 0;
}
