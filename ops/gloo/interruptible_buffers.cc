#include "ops/gloo/interruptible_buffers.h"

#include <exception>
#include <stdexcept>
#include <utility>
#include <vector>

namespace dabke::ops {

class InterruptibleBuffers::Buffer final : public gloo::transport::UnboundBuffer {
 public:
  Buffer(InterruptibleBuffers& context, std::unique_ptr<gloo::transport::UnboundBuffer> inner)
      : UnboundBuffer(inner->ptr, inner->size), context_(context), inner_(std::move(inner)) {
    const std::lock_guard lock(context_.mutex_);
    context_.buffers_.insert(inner_.get());
  }
  ~Buffer() override {
    {
      const std::lock_guard lock(context_.mutex_);
      context_.buffers_.erase(inner_.get());
    }
    if (std::uncaught_exceptions() == exceptions_) return;
    inner_.reset();
    context_.device_.await_thread();
  }

  bool waitRecv(int* rank, std::chrono::milliseconds timeout) override {
    return finished(inner_->waitRecv(rank, timeout));
  }
  bool waitSend(int* rank, std::chrono::milliseconds timeout) override {
    return finished(inner_->waitSend(rank, timeout));
  }
  void abortWaitRecv() override { inner_->abortWaitRecv(); }
  void abortWaitSend() override { inner_->abortWaitSend(); }
  void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    const DeviceThread::GivesWay gives_way(context_.device_.thread());
    inner_->send(to, slot, offset, bytes);
  }
  void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    const DeviceThread::GivesWay gives_way(context_.device_.thread());
    inner_->recv(from, slot, offset, bytes);
  }
  void recv(std::vector<int> from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    const DeviceThread::GivesWay gives_way(context_.device_.thread());
    inner_->recv(std::move(from), slot, offset, bytes);
  }

 private:
  /// Gloo's algorithms ignore the result of a wait, so an interrupted wait throws instead of returning.
  static bool finished(bool is) {
    if (!is) throw std::runtime_error("the wait was interrupted");
    return true;
  }

  InterruptibleBuffers& context_;
  std::unique_ptr<gloo::transport::UnboundBuffer> inner_;
  const int exceptions_ = std::uncaught_exceptions();  // a larger count later: the run ends early
};

InterruptibleBuffers::InterruptibleBuffers(std::shared_ptr<gloo::transport::Context> inner,
                                           GlooDevice& device)
    : Context(inner->rank, inner->size), inner_(std::move(inner)), device_(device) {
  setTimeout(inner_->getTimeout());
}

std::unique_ptr<gloo::transport::UnboundBuffer> InterruptibleBuffers::createUnboundBuffer(void* memory,
                                                                                          size_t size) {
  return std::make_unique<Buffer>(*this, inner_->createUnboundBuffer(memory, size));
}

void InterruptibleBuffers::interrupt() {
  const std::lock_guard lock(mutex_);
  for (gloo::transport::UnboundBuffer* const buffer : buffers_) {
    buffer->abortWaitRecv();
    buffer->abortWaitSend();
  }
}

}  // namespace dabke::ops
