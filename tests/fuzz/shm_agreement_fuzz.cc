// The agreement on a link through shared memory, with a peer that sends anything: bytes in any pieces, with
// descriptors of any kind. It ends with a link only where an offer was right and its memory fits.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "runtime/transport/shm/local_socket.h"
#include "runtime/transport/shm/shm_agreement.h"
#include "tests/fuzz/check.h"

namespace {

using dabke::Fd;
using dabke::fuzz::Input;

Fd memory(std::size_t bytes, bool is_sealed) {
  Fd fd(::memfd_create("dabke-fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  FUZZ_CHECK(fd && ::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
  if (is_sealed) FUZZ_CHECK(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  return fd;
}

Fd descriptor(std::size_t kind) {
  constexpr std::size_t kRight = sizeof(dabke::ShmLinkMemory);
  switch (kind) {
    case 0: return memory(kRight, true);
    case 1: return memory(kRight, false);
    case 2: return memory(kRight - 1, true);
    case 3: return memory(0, false);
    case 4: return Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    case 5: return Fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
    default: return Fd(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  }
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
  dabke::ShmAgreement agreement(is_connector, guard);
  while (!input.is_empty()) {
    if (const std::size_t what = input.below(8); what == 7) {
      theirs = Fd();
    } else if (theirs) {
      std::vector<Fd> sent;
      std::vector<int> raw;
      for (std::size_t i = 0; i < what; ++i) {
        sent.push_back(descriptor(input.below(7)));
        raw.push_back(sent.back().get());
      }
      const std::string_view bytes = input.piece();
      if (raw.empty()) {
        (void)!::send(theirs.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      } else if (!bytes.empty()) {
        (void)dabke::send_descriptors(theirs.get(), dabke::fuzz::bytes_of(bytes), raw);
      }
    }
    const auto agreed = agreement.advance(ours.get());
    if (!agreed.is_ok()) return 0;
    if (!*agreed) continue;
    (void)agreement.take_link(std::move(ours), {});
    return 0;
  }
  return 0;
}
