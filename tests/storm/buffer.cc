#include "buffer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "dabke/dabke.h"
#include "report.h"

namespace storm {
namespace {

constexpr std::size_t kFence = 64;
constexpr std::byte kFenceByte{0xA5};

}  // namespace

void Buffer::Free::operator()(std::byte* memory) const {
  if (is_registered) {
    dabke_free(memory);
  } else {
    std::free(memory);
  }
}

Buffer::Buffer(std::size_t size_bytes, std::size_t offset, bool is_registered)
    : begin_(kFence + offset), size_(size_bytes) {
  const std::size_t whole = (begin_ + size_ + 2 * kFence - 1) / kFence * kFence;
  void* memory = is_registered ? dabke_alloc(whole) : std::aligned_alloc(kFence, whole);
  if (memory == nullptr) wrong(std::string("no memory: ") + dabke_last_error());
  memory_ = std::unique_ptr<std::byte[], Free>(static_cast<std::byte*>(memory), Free{is_registered});
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
