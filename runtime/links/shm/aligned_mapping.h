// Maps a memfd so that the kernel can use huge pages: an offset in the file and its address are equal modulo
// the size of a huge page. Summing memory of 4 KiB pages from several processes takes a good part longer.
#pragma once

#include <cstddef>

#include "runtime/base/status.h"

namespace dabke::shm {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// A shared mapping, readable and writable, which munmap() ends. Asks for huge pages if it is long enough.
/// Code out_of_memory if there are no addresses for it.
Result<std::byte*> map_aligned(int fd, std::size_t offset, std::size_t size_bytes);

/// Maps more of the file of a mapping at `base` that begins at the file's begin. The mapping moves, and
/// `base` becomes its new address. After an error the old mapping is still there, or `base` is null.
Status grow_aligned(std::byte*& base, std::size_t old_bytes, std::size_t new_bytes);

}  // namespace dabke::shm
