// A second open file of a terminal or a pipe that somebody else uses, too.
#pragma once

#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

/// What `fd` is, opened again for `access` (O_RDONLY or O_WRONLY) so that it never blocks; the file that `fd`
/// stands for stays as it is. Empty when it is neither a terminal nor a pipe, or cannot be opened (a pipe of
/// another user).
Fd open_again(int fd, int access);

}  // namespace dabke::launcher
