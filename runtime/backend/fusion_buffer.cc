#include "runtime/backend/fusion_buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "runtime/base/bytes.h"

namespace dabke {

constexpr std::size_t kLargestBuffer = std::numeric_limits<std::ptrdiff_t>::max() - kPageBytes;

Result<std::byte*> FusionBuffer::reserve(std::size_t bytes) {
  if (bytes <= capacity_ && memory_ != nullptr) return static_cast<std::byte*>(memory_.get());
  // Half as much again, so that batches that grow little by little do not make a new buffer each.
  const auto rounded = [](std::size_t size) {
    return (std::max(size, kPageBytes) + kPageBytes - 1) / kPageBytes * kPageBytes;
  };
  const std::size_t wanted = std::max(bytes, std::min(capacity_ + capacity_ / 2, kLargestBuffer));
  drop();
  if (bytes <= kLargestBuffer) {
    capacity_ = rounded(wanted);
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
  capacity_ = 0;
}

}  // namespace dabke
