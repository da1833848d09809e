// A channel that a test can cut, as if its process were killed: it sends no goodbye.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "runtime/control/control_channel.h"

namespace dabke::test {

class DroppableChannel final : public control::ControlChannel {
 public:
  /// Lets a test cut the channel from any thread, while the channel lives.
  class Knife {
   public:
    void cut() {
      const std::lock_guard lock(mutex_);
      is_cut_ = true;
      if (channel_) channel_->inner_->wake();
    }

   private:
    friend class DroppableChannel;
    std::mutex mutex_;
    std::atomic<bool> is_cut_{false};
    DroppableChannel* channel_ = nullptr;
  };

  DroppableChannel(std::unique_ptr<control::ControlChannel> inner, std::vector<int> neighbours,
                   std::shared_ptr<Knife> knife)
      : inner_(std::move(inner)), neighbours_(std::move(neighbours)), knife_(std::move(knife)) {
    const std::lock_guard lock(knife_->mutex_);
    knife_->channel_ = this;
  }
  ~DroppableChannel() override {
    const std::lock_guard lock(knife_->mutex_);
    knife_->channel_ = nullptr;
  }

  std::string_view name() const override { return inner_->name(); }
  void send(int peer, std::span<const std::byte> message) override {
    if (!over_ && !knife_->is_cut_) inner_->send(peer, message);
  }
  void poll(TimePoint deadline, control::ControlSink& sink, control::Baton& baton) override {
    if (!over_ && !knife_->is_cut_) inner_->poll(deadline, sink, baton);
    if (over_) return inner_->poll(deadline, sink, baton);
    if (!knife_->is_cut_) return;
    over_ = true;
    inner_->close(TimePoint{});
    for (const int peer : neighbours_) {
      sink.on_peer_lost(peer,
                        Status(Code::peer_lost, fmt::format("rank {} on node: the channel was cut", peer)));
    }
  }
  void wake() override { inner_->wake(); }
  bool can_be_helped() const override { return inner_->can_be_helped(); }
  bool look(control::ControlSink& sink) override { return !over_ && !knife_->is_cut_ && inner_->look(sink); }
  void hand_back(bool needed) override { inner_->hand_back(needed); }
  void close(TimePoint deadline) override { inner_->close(deadline); }

 private:
  std::unique_ptr<control::ControlChannel> inner_;
  std::vector<int> neighbours_;
  std::shared_ptr<Knife> knife_;
  bool over_ = false;
};

}  // namespace dabke::test
