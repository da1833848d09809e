// An output stream of a rank, on its way to the launcher in frames.
#pragma once

#include <cstddef>

#include "launcher/agent_protocol/frame_channel.h"
#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

class CarriedOutput {
 public:
  CarriedOutput() = default;
  CarriedOutput(Fd pipe, int rank, bool is_error_output)
      : pipe_(std::move(pipe)), rank_(rank), is_error_output_(is_error_output) {}

  bool is_open() const { return static_cast<bool>(pipe_); }
  bool is_error_output() const { return is_error_output_; }
  int pipe() const { return pipe_.get(); }

  /// Reads once, and returns the number of bytes. Reports end of file to the launcher.
  std::size_t read(FrameChannel& channel);
  /// Sends the rest of the pipe, and the end. Called when no process of the rank is left that could write.
  void finish(FrameChannel& channel);

 private:
  void close(FrameChannel& channel);

  Fd pipe_;
  int rank_ = 0;
  bool is_error_output_ = false;
};

}  // namespace dabke::launcher
