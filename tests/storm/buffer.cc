#include "buffer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "dabke/dabke.h"
#include "device.h"
#include "report.h"

namespace storm {
namespace {

constexpr std::size_t kFence = 64;
constexpr std::byte kFenceByte{0xA5};

}  // namespace

void Buffer::Free::operator()(std::byte* memory) const {
  switch (home) {
    case Home::heap: return std::free(memory);
    case Home::registered: return dabke_free(memory);
    case Home::device: return free_on_device(memory);
  }
}

Buffer::Buffer(std::size_t size_bytes, std::size_t offset, Home home, int device)
    : begin_(kFence + offset), size_(size_bytes) {
  const std::size_t whole = (begin_ + size_ + 2 * kFence - 1) / kFence * kFence;
  void* memory = home == Home::device       ? allocate_on_device(device, whole)
                 : home == Home::registered ? dabke_alloc(whole)
                                            : std::aligned_alloc(kFence, whole);
  if (memory == nullptr) wrong(std::string("no memory: ") + dabke_last_error());
  memory_ = std::unique_ptr<std::byte[], Free>(static_cast<std::byte*>(memory), Free{home});
  std::memset(memory, 0x5A, whole);
  std::memset(memory_.get(), static_cast<int>(kFenceByte), begin_);
  std::memset(data() + size_, static_cast<int>(kFenceByte), kFence);
}

bool Buffer::is_whole() const {
  if (memory_ == nullptr) return true;
  const auto is_fence = [](std::byte byte) { return byte == kFenceByte; };
  return std::all_of(memory_.get(), memory_.get() + begin_, is_fence) &&
         std::all_of(data() + size_, data() + size_ + kFence, is_fence);
}

}  // namespace storm
