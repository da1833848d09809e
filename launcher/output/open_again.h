// A second open file of a terminal or a pipe that other programs use, too.
#pragma once

#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

/// Opens the file of `fd` again for `access` (O_RDONLY or O_WRONLY), non-blocking; the open file of `fd` is
/// unchanged. Empty if it is neither a terminal nor a pipe, or cannot be opened (a pipe of another user).
Fd open_again(int fd, int access);

}  // namespace dabke::launcher
