// Makes every wait on a Gloo buffer interruptible from another thread.
//
// Gloo notifies a buffer when its connection breaks, but not for a send that was still being written: a wait
// for such a send never ends. Shutting the sockets down does not help then, because Gloo has already closed
// them. So all buffers of a context, also those inside Gloo's own algorithms, are made here, and interrupt()
// ends the waits themselves. This class also keeps Gloo's thread from spinning (device_thread.h).
//
// When a run ends early, Gloo's thread may still be receiving into the memory of a buffer that no longer
// waits. ~UnboundBuffer waits for the end of that by a counter. Then Gloo frees its own memory. Race
// detectors do not see the counter in a library that is not instrumented. So we also wait, under our own
// lock, until the thread has passed once more.
#pragma once

#include <memory>
#include <mutex>
#include <set>

#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include "ops/gloo/gloo_device.h"

namespace dabke::ops {

/// A transport context in front of Gloo's own.
class InterruptibleBuffers final : public gloo::transport::Context {
 public:
  InterruptibleBuffers(std::shared_ptr<gloo::transport::Context> inner, GlooDevice& device);

  gloo::transport::Context& inner() { return *inner_; }

  /// Ends every current wait with an exception. From any thread. A wait that begins later is not ended, so
  /// repeat the call until the run has ended.
  void interrupt();

  std::unique_ptr<gloo::transport::Pair>& getPair(int rank) override { return inner_->getPair(rank); }
  std::unique_ptr<gloo::transport::Pair>& createPair(int rank) override { return inner_->createPair(rank); }
  std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void* memory, size_t size) override;

 private:
  class Buffer;

  std::shared_ptr<gloo::transport::Context> inner_;
  GlooDevice& device_;
  std::mutex mutex_;
  std::set<gloo::transport::UnboundBuffer*> buffers_;  // Gloo's
};

}  // namespace dabke::ops
