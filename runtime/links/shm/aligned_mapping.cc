#include "runtime/links/shm/aligned_mapping.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include <fmt/format.h>

namespace dabke::shm {
namespace {

Status no_mapping(std::size_t size_bytes) {
  return {
      Code::out_of_memory,
      fmt::format("{} (of {} bytes)", system_error("cannot map shared memory", errno).message(), size_bytes)};
}

/// Reserves `size_bytes` of addresses, equal to `offset` modulo the size of a huge page.
std::byte* reserve_addresses(std::size_t offset, std::size_t size_bytes) {
  const std::size_t wide = size_bytes + kHugePage;
  void* const found = ::mmap(nullptr, wide, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(found);
  const std::size_t skipped = (offset - reinterpret_cast<std::uintptr_t>(begin)) % kHugePage;
  if (skipped != 0) ::munmap(begin, skipped);
  if (const std::size_t behind = kHugePage - skipped; behind != 0)
    ::munmap(begin + skipped + size_bytes, behind);
  return begin + skipped;
}

// The kernel's own call. Libraries that watch what a process maps (such as UCX, which Debian's MPI brings)
// replace libc's function by one with four arguments. MREMAP_FIXED then takes the address from some register.
void* move_mapping(void* from, std::size_t old_bytes, std::size_t new_bytes, void* to) {
  const long moved = ::syscall(SYS_mremap, from, old_bytes, new_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to);
  return reinterpret_cast<void*>(moved);  // -1 is MAP_FAILED
}

Status mapped_elsewhere(const void* got, const void* wanted, std::size_t size_bytes) {
  return {Code::internal,
          fmt::format("shared memory of {} bytes was mapped at {} instead of {}: a library in this process "
                      "replaces mmap or syscall by a function that loses arguments; run without it",
                      size_bytes, got, wanted)};
}

}  // namespace

Result<std::byte*> map_aligned(int fd, std::size_t offset, std::size_t size_bytes) {
  std::byte* wanted = nullptr;
  if (size_bytes >= kHugePage) {
    wanted = reserve_addresses(offset, size_bytes);
    if (wanted == nullptr) return no_mapping(size_bytes);
  }
  void* const base = ::mmap(wanted, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (wanted ? MAP_FIXED : 0),
                            fd, static_cast<off_t>(offset));
  if (base == MAP_FAILED) {
    const Status status = no_mapping(size_bytes);
    if (wanted != nullptr) ::munmap(wanted, size_bytes);
    return status;
  }
  if (wanted != nullptr && base != wanted) {
    ::munmap(base, size_bytes);
    ::munmap(wanted, size_bytes);
    return mapped_elsewhere(base, wanted, size_bytes);
  }
  if (wanted != nullptr) (void)::madvise(base, size_bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(base);
}

Status grow_aligned(std::byte*& base, std::size_t old_bytes, std::size_t new_bytes) {
  std::byte* const wanted = reserve_addresses(0, new_bytes);
  if (wanted == nullptr) return no_mapping(new_bytes);
  void* const moved = move_mapping(base, old_bytes, new_bytes, wanted);
  if (moved == MAP_FAILED) {
    const Status status = no_mapping(new_bytes);
    ::munmap(wanted, new_bytes);
    return status;
  }
  if (moved != wanted) {  // nothing is in its old place, so there is no way back
    ::munmap(moved, new_bytes);
    ::munmap(wanted, new_bytes);
    base = nullptr;
    return mapped_elsewhere(moved, wanted, new_bytes);
  }
  (void)::madvise(wanted, new_bytes, MADV_HUGEPAGE);
  base = wanted;
  return {};
}

}  // namespace dabke::shm
