// Ctrl-Z: dabkerun stops like any program, although it blocks the signal.
#pragma once

namespace dabke::launcher {

/// Stops this process, which has SIGTSTP and SIGCONT blocked, and returns when it continues. Takes the
/// SIGCONT that continued it.
void stop_this_process();

}  // namespace dabke::launcher
