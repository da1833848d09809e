#include "tests/in_process/sim_channel.h"

#include <utility>

#include <fmt/format.h>

namespace dabke::test {

class SimChannel final : public control::ControlChannel {
 public:
  SimChannel(std::shared_ptr<SimNetwork> network, int rank) : network_(std::move(network)), rank_(rank) {}
  ~SimChannel() override { close(TimePoint{}); }

  std::string_view name() const override { return "sim"; }
  void send(int peer, std::span<const std::byte> message) override {
    if (!closed_) network_->put(peer, {rank_, std::vector(message.begin(), message.end())});
  }
  void poll(TimePoint deadline, control::ControlSink& sink, control::Baton&) override;
  void wake() override {
    SimNetwork::Mailbox& box = network_->mailbox(rank_);
    {
      const std::lock_guard lock(box.mutex);
      box.woken = true;
    }
    box.changed.notify_one();
  }
  void close(TimePoint deadline) override;

 private:
  std::shared_ptr<SimNetwork> network_;
  int rank_;
  bool closed_ = false;
};

void SimChannel::poll(TimePoint deadline, control::ControlSink& sink, control::Baton&) {
  SimNetwork::Mailbox& box = network_->mailbox(rank_);
  std::unique_lock lock(box.mutex);
  const auto something = [&box] { return box.woken || !box.letters.empty(); };
  if (deadline == kNever) {
    box.changed.wait(lock, something);
  } else {
    box.changed.wait_until(lock, deadline, something);
  }
  box.woken = false;
  const auto letters = std::exchange(box.letters, {});
  lock.unlock();
  for (const SimNetwork::Letter& letter : letters) {
    if (letter.message) {
      sink.on_message(letter.from, *letter.message);
    } else {
      sink.on_peer_lost(
          letter.from,
          Status(Code::peer_lost, fmt::format("rank {} on node: it closed its channel", letter.from)));
    }
  }
}

void SimChannel::close(TimePoint) {
  if (std::exchange(closed_, true)) return;
  {
    SimNetwork::Mailbox& box = network_->mailbox(rank_);
    const std::lock_guard lock(box.mutex);
    box.closed = true;
    box.letters.clear();
  }
  if (rank_ != 0) return network_->put(0, {rank_, std::nullopt});
  for (int peer = 1; peer < static_cast<int>(network_->mailboxes_.size()); ++peer) {
    network_->put(peer, {rank_, std::nullopt});
  }
}

std::unique_ptr<control::ControlChannel> SimNetwork::open(int rank) {
  return std::make_unique<SimChannel>(shared_from_this(), rank);
}

void SimNetwork::put(int to, Letter letter) {
  Mailbox& box = mailbox(to);
  {
    const std::lock_guard lock(box.mutex);
    if (box.closed) return;
    box.letters.push_back(std::move(letter));
  }
  box.changed.notify_one();
}

}  // namespace dabke::test
