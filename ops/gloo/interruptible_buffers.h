// Makes every wait on a Gloo buffer one that can be ended from another thread.
//
// Gloo tells a buffer that its connection broke, but not for a send that was still being written: who waits
// for that one waits for ever. Shutting the sockets down is no help then, because Gloo has closed them
// already. So all buffers of a context, those inside Gloo's own algorithms too, are made here, and
// interrupt() ends the waits themselves. Here too Gloo's thread is kept from spinning (device_thread.h).
//
// Where a run ends early, Gloo's thread may just have received into the memory of a buffer that waits no
// more. ~UnboundBuffer waits until that is over, by a count that no tool sees in a library which is not
// instrumented; then Gloo frees its own memory. So what has been received is also over by a lock of ours: the
// thread comes by.
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

  /// Ends every wait of this moment: it throws. From any thread. A wait that begins later is not ended; so
  /// repeat this until the run has ended.
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
