#include "launcher/agent/carried_output.h"

#include <unistd.h>

#include <cerrno>

#include "launcher/agent_protocol/protocol.h"

namespace dabke::launcher {
namespace {

constexpr std::size_t kOutputChunk = 64 << 10;
/// More than a dead rank can leave in its pipe: /proc/sys/fs/pipe-max-size, unless root has raised it.
constexpr std::size_t kLargestOfPipes = std::size_t{1} << 20;

void send_output(FrameChannel& channel, FrameKind kind, const OutputMessage& message) {
  channel.send(static_cast<std::uint8_t>(kind), to_wire(message));
}

}  // namespace

std::size_t CarriedOutput::read(FrameChannel& channel) {
  OutputMessage message{
      .rank = rank_, .is_error_output = is_error_output_, .bytes = std::string(kOutputChunk, '\0')};
  const ssize_t got = ::read(pipe_.get(), message.bytes.data(), kOutputChunk);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  if (got <= 0) {
    close(channel);
    return 0;
  }
  message.bytes.resize(static_cast<std::size_t>(got));
  send_output(channel, FrameKind::output, message);
  return message.bytes.size();
}

void CarriedOutput::finish(FrameChannel& channel) {
  for (std::size_t total = 0; is_open() && total <= kLargestOfPipes;) {
    const std::size_t got = read(channel);
    total += got;
    if (got == 0) break;
  }
  if (is_open()) close(channel);
}

void CarriedOutput::close(FrameChannel& channel) {
  pipe_ = Fd();
  send_output(channel, FrameKind::output_end,
              {.rank = rank_, .is_error_output = is_error_output_, .bytes = {}});
}

}  // namespace dabke::launcher
