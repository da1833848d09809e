// The agreement on a link through shared memory, with a peer that sends anything: bytes in any pieces, and
// any kind of descriptors. A link results only from a valid offer with memory of the right size. The peer
// then writes anything into that memory, frames and indices, while this side receives and sends.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "runtime/links/shm/local_socket.h"
#include "runtime/links/shm/shm_agreement.h"
#include "runtime/links/shm/shm_link.h"
#include "tests/fuzz/check.h"

namespace {

using dabke::Fd;
using dabke::test::Input;

enum class Memory { plain, sealed, right };

Fd memory(std::size_t bytes, Memory kind) {
  Fd fd(::memfd_create("dabke-fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  FUZZ_CHECK(fd && ::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
  if (kind == Memory::right) FUZZ_CHECK(::fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes)) == 0);
  if (kind != Memory::plain)
    FUZZ_CHECK(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
  return fd;
}

Fd descriptor(std::size_t kind) {
  constexpr std::size_t kRight = sizeof(dabke::shm::ShmLinkMemory);
  switch (kind) {
    case 0: return memory(kRight, Memory::right);
    case 1: return memory(kRight, Memory::plain);
    case 2: return memory(kRight - 1, Memory::right);
    case 3: return memory(0, Memory::plain);
    case 4: return Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    case 5: return Fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
    case 6: return memory(kRight, Memory::sealed);  // its pages do not exist
    default: return Fd(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  }
}

constexpr std::size_t kDescriptors = 8;

class Frames final : public dabke::links::FrameSink {
 public:
  void on_frame(std::span<const std::byte> frame) override {
    for (const std::byte byte : frame) sum_ += std::to_integer<unsigned>(byte);  // reads all of it
  }

 private:
  unsigned sum_ = 0;
};

std::uint64_t number(Input& input) {
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | input.byte();
  return value;
}

void use_link(Input& input, dabke::links::Link& link, int segment) {
  constexpr int kMostSteps = 64;
  void* const address =
      ::mmap(nullptr, sizeof(dabke::shm::ShmLinkMemory), PROT_READ | PROT_WRITE, MAP_SHARED, segment, 0);
  FUZZ_CHECK(address != MAP_FAILED);
  dabke::shm::ShmLinkMemory& shared = *static_cast<dabke::shm::ShmLinkMemory*>(address);
  dabke::shm::RingMemory& from_peer = shared.to_connector;
  dabke::shm::RingMemory& to_peer = shared.to_acceptor;
  Frames frames;
  bool is_over = false;
  for (int step = 0; step < kMostSteps && !is_over && !input.is_empty(); ++step) {
    switch (input.below(8)) {
      case 0: {  // writes as a correct peer does
        const std::string_view bytes = input.piece();
        const std::uint64_t at = from_peer.written.load();
        for (std::size_t i = 0; i < bytes.size(); ++i)
          from_peer.bytes[(at + i) % dabke::shm::kRingBytes] = static_cast<std::byte>(bytes[i]);
        from_peer.written.store(at + bytes.size());
        break;
      }
      case 1: from_peer.written.store(number(input)); break;
      case 2: to_peer.read.store(number(input)); break;
      case 3: from_peer.ended.store(input.byte()); break;
      case 4: to_peer.abandoned.store(input.byte()); break;
      case 5: from_peer.writer_waits.store(1); break;
      case 6: to_peer.reader_sleeps.store(1); break;
      default: (void)link.send(dabke::test::bytes_of(input.piece())); break;
    }
    link.flush();
    (void)link.poll_ready();
    const auto received = link.receive(frames);
    is_over = !received.is_ok() || *received == dabke::links::Link::Received::closed;
    if (link.prepare_to_sleep()) link.woken();
  }
  ::munmap(address, sizeof(dabke::shm::ShmLinkMemory));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  int ends[2];
  FUZZ_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
  Fd theirs(ends[1]);
  dabke::ForkGuard guard;
  dabke::GuardedFd ours(Fd(ends[0]), guard);
  const bool is_connector = input.below(2) == 0;
  dabke::shm::ShmAgreement agreement(is_connector, guard);
  Fd segment;  // the last valid one
  while (!input.is_empty()) {
    if (const std::size_t what = input.below(8); what == 7) {
      theirs = Fd();
    } else if (theirs) {
      std::vector<Fd> sent;
      std::vector<int> raw;
      for (std::size_t i = 0; i < what; ++i) {
        const std::size_t kind = input.below(kDescriptors);
        sent.push_back(descriptor(kind));
        raw.push_back(sent.back().get());
        if (kind == 0 && i == 0) segment = Fd(::fcntl(raw.back(), F_DUPFD_CLOEXEC, 0));
      }
      const std::string_view bytes = input.piece();
      if (raw.empty()) {
        (void)!::send(theirs.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      } else if (!bytes.empty()) {
        (void)dabke::shm::send_descriptors(theirs.get(), dabke::test::bytes_of(bytes), raw);
      }
    }
    const auto agreed = agreement.advance(ours.get());
    if (!agreed.is_ok()) return 0;
    if (!*agreed) continue;
    const auto link = agreement.take_link(std::move(ours), {});
    if (link.is_ok() && is_connector && segment) use_link(input, **link, segment.get());
    return 0;
  }
  return 0;
}
