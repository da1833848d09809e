// What a rank's output goes through: a pipe, or a pseudo-terminal, at which programs write each line at once and use colours.
#pragma once

#include <cstdint>

#include "runtime/base/status.h"
#include "runtime/base/terminal.h"
#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

/// The read end never blocks; the write end, which is a rank's, does.
struct OutputPipe {
  Fd read_end, write_end;
};

/// What a rank writes to.
struct OutputEnds {
  Fd output, error_output;
};

Result<OutputPipe> make_output_pipe();

/// `terminal_if_any`: a pipe where the system has no pseudo-terminal left.
enum class StdoutKind : std::int32_t { pipe, terminal_if_any, terminal };

/// Bytes pass a terminal unchanged, and it becomes nobody's controlling terminal. Its read end fails with EIO once all has been
/// read and nobody has the write end open any more.
Result<OutputPipe> make_stdout(StdoutKind kind);

/// Sets the size of the terminal that has this read end; of a pipe there is none.
void resize(int read_end, TerminalSize size);

}  // namespace dabke::launcher
