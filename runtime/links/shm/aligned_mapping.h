// Maps a memfd so that the kernel can use huge pages: an offset in the file and its address are the same
// modulo their size. Summing memory of 4 KiB pages from several processes takes a good part longer.
#pragma once

#include <cstddef>

#include "runtime/base/status.h"

namespace dabke::shm {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Shared, readable and writable; munmap() ends it. Huge pages are asked for where it is long enough. Code
/// out_of_memory when there are no addresses for it.
Result<std::byte*> map_aligned(int fd, std::size_t offset, std::size_t size_bytes);

/// More of the file of a mapping at `base`, which began at the file's begin. It moves, and `base` then says
/// where it is; after an error the old mapping is still there, or `base` is null.
Status grow_aligned(std::byte*& base, std::size_t old_bytes, std::size_t new_bytes);

}  // namespace dabke::shm
