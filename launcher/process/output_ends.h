// The channel of a rank's output: a pipe, or a pseudo-terminal. At the latter, programs write each line at
// once and use colours.
#pragma once

#include <cstdint>

#include "runtime/base/status.h"
#include "runtime/base/terminal.h"
#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

/// The read end is non-blocking; the write end, which is a rank's, blocks.
struct OutputPipe {
  Fd read_end, write_end;
};

/// The ends to which a rank writes.
struct OutputEnds {
  Fd output, error_output;
};

Result<OutputPipe> make_output_pipe();

/// `terminal_if_any`: a pipe if the system has no pseudo-terminal left.
enum class StdoutKind : std::int32_t { pipe, terminal_if_any, terminal };

/// Makes the channel for a rank's stdout. A terminal passes bytes unchanged, and becomes the controlling
/// terminal of no process. Its read end fails with EIO once all has been read and no process has the write
/// end open.
Result<OutputPipe> make_stdout(StdoutKind kind);

/// Sets the size of the terminal with this read end; pipes have no size.
void resize(int read_end, TerminalSize size);

}  // namespace dabke::launcher
