#include "runtime/backend/fusion_buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "runtime/base/bytes.h"

namespace dabke {

namespace {

constexpr std::size_t kLargestBuffer = std::numeric_limits<std::ptrdiff_t>::max() - kPageBytes;

/// Rounds up to whole pages.
constexpr std::size_t rounded(std::size_t bytes) {
  return (std::max(bytes, kPageBytes) + kPageBytes - 1) / kPageBytes * kPageBytes;
}

}  // namespace

std::size_t FusionBuffer::grown(std::size_t capacity, std::size_t bytes) {
  return rounded(
      std::max(std::min(bytes, kLargestBuffer), std::min(capacity + capacity / 2, kLargestBuffer)));
}

void FusionBuffer::borrow(std::byte* memory, std::size_t capacity) {
  drop();
  borrowed_ = memory;
  capacity_ = capacity;
}

Result<std::byte*> FusionBuffer::reserve(std::size_t bytes) {
  if (bytes <= capacity_ && borrowed_ != nullptr) return borrowed_;
  if (bytes <= capacity_ && memory_ != nullptr) return static_cast<std::byte*>(memory_.get());
  const std::size_t wanted = grown(capacity_, bytes);
  drop();
  if (bytes <= kLargestBuffer) {
    capacity_ = wanted;
    memory_ = allocate_from(stream_->memory(), capacity_);
    if (memory_ == nullptr) {
      capacity_ = rounded(bytes);
      memory_ = allocate_from(stream_->memory(), capacity_);
    }
  }
  if (memory_ == nullptr) {
    capacity_ = 0;
    DABKE_RETURN_IF_ERROR(stream_->memory()->state());
    return Status(
        Code::out_of_memory,
        fmt::format("cannot allocate a fusion buffer of {} bytes; lower DABKE_FUSION_THRESHOLD", bytes));
  }
  return static_cast<std::byte*>(memory_.get());
}

void FusionBuffer::drop() {
  if (memory_ != nullptr) stream_->retire(std::move(memory_));
  memory_ = nullptr;
  borrowed_ = nullptr;
  capacity_ = 0;
}

}  // namespace dabke
