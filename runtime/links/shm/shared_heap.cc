#include "runtime/links/shm/shared_heap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "runtime/base/bytes.h"
#include "runtime/links/shm/aligned_mapping.h"
#include "runtime/links/shm/segment.h"

// From Linux 5.14 and 6.1 on; older kernels return EINVAL, which does no harm.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace dabke::shm {
namespace {

// Allocations of this size and more begin at a page. The file is divided into units of this size, a multiple
// of any page size.
constexpr std::size_t kWholePages = std::size_t{64} << 10;
// Each region takes an entry of the process's table of mappings (usually 65,530), so only large allocations
// have a region of their own.
constexpr std::size_t kOwnRegion = std::size_t{4} << 20;
constexpr std::size_t kLeastShared = std::size_t{1} << 20;
constexpr std::size_t kMostShared = std::size_t{32} << 20;
constexpr std::size_t kMost = std::size_t{1} << 46;  // less than the address space, so that no sum wraps

std::size_t rounded(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }
std::size_t page_bytes() { return static_cast<std::size_t>(::getpagesize()); }
/// Small allocations are aligned to a cache line only.
std::size_t alignment_of(std::size_t bytes) { return bytes >= kWholePages ? page_bytes() : kCacheLine; }
std::uintptr_t number_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

SharedHeap::~SharedHeap() {
  for (const auto& [offset, region] : regions_) ::munmap(region.base, region.bytes);
}

Result<void*> SharedHeap::allocate(std::size_t size_bytes) {
  if (size_bytes > kMost)
    return Status(Code::out_of_memory,
                  fmt::format("cannot create {} bytes of shared memory: no machine has so much", size_bytes));
  const std::size_t bytes = rounded(std::max(size_bytes, kCacheLine), alignment_of(size_bytes));
  Allocation allocation;
  std::byte* memory = nullptr;
  {
    const std::lock_guard lock(room_mutex_);
    DABKE_ASSIGN_OR_RETURN(allocation, bytes >= kOwnRegion ? take_own(bytes) : take_shared(bytes));
    memory = regions_.at(allocation.region).base + (allocation.offset - allocation.region);
  }
  const std::lock_guard lock(mutex_);
  allocations_.emplace(number_of(memory), allocation);
  return static_cast<void*>(memory);
}

Status SharedHeap::free(void* memory) {
  Allocation allocation;
  {
    std::unique_lock lock(mutex_);
    const auto found = allocations_.find(number_of(memory));
    if (found == allocations_.end() || found->second.is_freed) {
      return {Code::invalid_argument, fmt::format("{} was not allocated by this process (only the parent of "
                                                  "a fork frees what it had), or was freed before",
                                                  memory)};
    }
    found->second.is_freed = true;
    released_.wait(lock, [&] { return found->second.uses == 0; });
    allocation = found->second;
    allocations_.erase(found);
  }
  const std::lock_guard lock(room_mutex_);
  give_back(allocation);
  return {};
}

SharedHeap::Allocations::const_iterator SharedHeap::find(std::uintptr_t address) const {
  const auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return allocations_.end();
  const auto found = std::prev(after);
  const bool is_in = address - found->first < found->second.bytes && !found->second.is_freed;
  return is_in ? found : allocations_.end();
}

SharedHeap::Use SharedHeap::find_use(const void* data) {
  const std::lock_guard lock(mutex_);
  const auto found = find(number_of(data));
  if (found == allocations_.end()) return {};
  ++allocations_.at(found->first).uses;
  return {this, found->first};
}

void SharedHeap::release(std::uintptr_t begin) {
  const std::lock_guard lock(mutex_);
  Allocation& allocation = allocations_.at(begin);
  if (--allocation.uses == 0 && allocation.is_freed) released_.notify_all();
}

std::optional<std::size_t> SharedHeap::place_of(const void* data, std::size_t size_bytes) const {
  if (extent() == 0) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto found = find(number_of(data));
  if (found == allocations_.end()) return std::nullopt;
  const std::size_t inside = number_of(data) - found->first;
  if (size_bytes > found->second.bytes - inside) return std::nullopt;
  return found->second.offset + inside;
}

Result<SharedHeap::Allocation> SharedHeap::take_own(std::size_t bytes) {
  DABKE_ASSIGN_OR_RETURN(const std::size_t offset, open_region(rounded(bytes, kWholePages)));
  regions_.at(offset).used = bytes;
  return Allocation{.bytes = bytes, .offset = offset, .region = offset};
}

Result<SharedHeap::Allocation> SharedHeap::take_shared(std::size_t bytes) {
  for (auto& [offset, region] : regions_) {
    if (!region.is_shared || region.bytes - region.used < bytes) continue;
    const auto inside = region.free.take(bytes, alignment_of(bytes));
    if (!inside) continue;
    region.used += bytes;
    return Allocation{.bytes = bytes, .offset = offset + *inside, .region = offset};
  }
  // A new region is as large as all others together, within limits, so that there are few of them however
  // much is allocated.
  const std::size_t wanted =
      std::max(rounded(bytes, kLeastShared), std::clamp(small_bytes_, kLeastShared, kMostShared));
  DABKE_ASSIGN_OR_RETURN(const std::size_t offset, open_region(wanted));
  Region& region = regions_.at(offset);
  region.is_shared = true;
  region.used = bytes;
  region.free.give(bytes, region.bytes - bytes);
  small_bytes_ += region.bytes;
  return Allocation{.bytes = bytes, .offset = offset, .region = offset};
}

void SharedHeap::give_back(const Allocation& allocation) {
  Region& region = regions_.at(allocation.region);
  region.used -= allocation.bytes;
  if (region.is_shared) {
    region.free.give(allocation.offset - allocation.region, allocation.bytes);
    // The last region is kept, because a program with one small tensor at a time would otherwise make a
    // region for each.
    if (region.used != 0 || small_bytes_ == region.bytes) return;
    small_bytes_ -= region.bytes;
  }
  close_region(allocation.region);
}

Status SharedHeap::open_file() {
  if (fd_) return {};
  Fd fd(::memfd_create("dabke-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return system_error("no shared memory: memfd_create", errno);
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
    return system_error("fcntl(F_ADD_SEALS)", errno);
  fd_ = GuardedFd(std::move(fd), fork_guard_);
  return {};
}

/// Finds a part of the file in which nothing is allocated; makes the file longer if necessary.
Result<std::size_t> SharedHeap::find_room(std::size_t bytes, std::size_t alignment) {
  if (const auto offset = room_.take(bytes, alignment)) return *offset;
  const std::size_t end = extent_.load(std::memory_order_relaxed);
  const std::size_t offset = rounded(end, alignment);
  DABKE_RETURN_IF_ERROR(check_file_size_limit(offset + bytes));
  if (::ftruncate(fd_.get(), static_cast<off_t>(offset + bytes)) != 0)
    return system_error("ftruncate", errno);
  room_.give(end, offset - end);
  extent_.store(offset + bytes, std::memory_order_release);
  return offset;
}

Result<std::size_t> SharedHeap::open_region(std::size_t bytes) {
  DABKE_RETURN_IF_ERROR(open_file());
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kWholePages;
  DABKE_ASSIGN_OR_RETURN(const std::size_t offset, find_room(bytes, alignment));
  const auto map = [&]() -> Result<std::byte*> {
    DABKE_ASSIGN_OR_RETURN(std::byte* const base, map_aligned(fd_.get(), offset, bytes));
    // Huge pages are created only by touching them. The next call creates the pages that are still missing,
    // and reports a lack of memory.
    if (bytes >= kHugePage) (void)::madvise(base, bytes, MADV_POPULATE_WRITE);
    if (Status status = reserve_pages(fd_.get(), offset, bytes); !status.is_ok()) {
      ::munmap(base, bytes);
      return status;
    }
    // If touching has created small pages, as it does by the default of most systems, they can be made huge
    // afterwards.
    if (bytes >= kHugePage) (void)::madvise(base, bytes, MADV_COLLAPSE);
    return base;
  };
  auto base = map();
  if (!base) {
    (void)::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                      static_cast<off_t>(bytes));
    room_.give(offset, bytes);
    return base.status();
  }
  Region& region = regions_[offset];
  region.base = *base;
  region.bytes = bytes;
  return offset;
}

void SharedHeap::close_region(std::size_t offset) {
  const auto region = regions_.find(offset);
  ::munmap(region->second.base, region->second.bytes);
  // Gives the memory back to the system, even if other processes have the file mapped.
  (void)::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                    static_cast<off_t>(region->second.bytes));
  room_.give(offset, region->second.bytes);
  regions_.erase(region);
}

}  // namespace dabke::shm
