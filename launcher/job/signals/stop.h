// Ctrl-Z: dabkerun stops as any program does, though it has the signal blocked.
#pragma once

namespace dabke::launcher {

/// Stops this process, which has SIGTSTP and SIGCONT blocked, and returns when it goes on; the SIGCONT that
/// did that is taken.
void stop_this_process();

}  // namespace dabke::launcher
