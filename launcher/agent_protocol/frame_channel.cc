#include "launcher/agent_protocol/frame_channel.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace dabke::launcher {
namespace {

constexpr std::size_t kHeader = 5;
constexpr std::size_t kLongest = std::size_t{1} << 28;

void never_block(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

std::size_t length_in(std::string_view header) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < 4; ++i)
    length |= static_cast<std::size_t>(static_cast<unsigned char>(header[i])) << (8 * i);
  return length;
}

}  // namespace

void FrameChannel::open(Fd in, Fd out) {
  in_ = std::move(in);
  out_ = std::move(out);
  never_block(in_.get());
  never_block(out_.get());
}

void FrameChannel::send(std::uint8_t kind, std::string_view content) {
  if (!out_) return;
  for (std::size_t i = 0; i < 4; ++i) waiting_ += static_cast<char>(content.size() >> (8 * i));
  waiting_ += static_cast<char>(kind);
  waiting_ += content;
  flush();
}

void FrameChannel::flush() {
  while (out_ && waiting() != 0) {
    const ssize_t wrote = ::write(out_.get(), waiting_.data() + written_, waiting());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && errno == EAGAIN) break;
    if (wrote < 0) out_ = Fd();  // read() then reports that the other end is gone
    if (wrote > 0) written_ += static_cast<std::size_t>(wrote);
  }
  constexpr std::size_t kWorthMoving = std::size_t{1} << 18;
  if (!out_ || waiting() == 0 || written_ > kWorthMoving) {
    waiting_.erase(0, out_ ? written_ : waiting_.size());
    written_ = 0;
  }
}

void FrameChannel::close() {
  in_ = Fd();
  out_ = Fd();
}

void FrameChannel::add_poll_entries(std::vector<pollfd>& entries) const {
  if (in_) entries.push_back({in_.get(), POLLIN, 0});
  if (out_ && waiting() != 0) entries.push_back({out_.get(), POLLOUT, 0});
}

bool FrameChannel::read() {
  read_.erase(0, taken_);
  taken_ = 0;
  std::array<char, 64 << 10> chunk;
  const ssize_t got = ::read(in_.get(), chunk.data(), chunk.size());
  if (got > 0) read_.append(chunk.data(), static_cast<std::size_t>(got));
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

std::optional<FrameChannel::Frame> FrameChannel::next() {
  const std::string_view rest = std::string_view(read_).substr(taken_);
  if (broken_ || rest.size() < kHeader) return std::nullopt;
  const std::size_t length = length_in(rest);
  broken_ = length > kLongest;
  if (broken_ || rest.size() < kHeader + length) return std::nullopt;
  taken_ += kHeader + length;
  return Frame{static_cast<std::uint8_t>(rest[4]), rest.substr(kHeader, length)};
}

}  // namespace dabke::launcher
