// dabkerun without processes: a served store, its meetings and the membership, driven by a thread. The test
// starts the processes, or plays them by threads.
#pragma once

#include <poll.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "launcher/elastic/meetings.h"
#include "launcher/elastic/membership.h"
#include "runtime/base/ended_rank.h"
#include "runtime/base/hmac.h"
#include "runtime/bootstrap/elastic/arrival.h"
#include "runtime/store/http_store.h"
#include "runtime/store/rendezvous_server.h"
#include "tests/variables.h"

namespace dabke::test {

class ServedJob {
 public:
  ServedJob(launcher::MembershipLimits limits, std::vector<launcher::Host> hosts)
      : membership_(limits),
        meetings_(launcher::Meetings::open(to_hex(JobId{})).take()),
        server_(store::RendezvousServer::listen({"127.0.0.1"}, JobId{}, JobKey{}).take()) {
    server_->on_set(
        [this](const std::string& key, const std::string& value) { meetings_->offer(key, value); });
    (void)server_->start();
    membership_.set_hosts(std::move(hosts), Clock::now());
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) turn();
    });
  }

  /// The job's part of the store, for one process.
  std::shared_ptr<store::Store> client() const {
    return store::with_prefix(store::open_http_store(server_->url(), JobId{}, JobKey{}).take(),
                              to_hex(JobId{}));
  }
  /// The variables with which dabkerun would start the process.
  Variables variables_of(launcher::WorkerId worker, const std::string& host = "a") const {
    return {{"DABKE_ELASTIC_WORKER", std::to_string(worker)},
            {"DABKE_RENDEZVOUS", server_->url()},
            {"DABKE_JOB_ID", to_hex(JobId{})},
            {"DABKE_JOB_KEY", to_hex(JobKey{})},
            {"DABKE_HOSTNAME", host}};
  }
  void ends(launcher::WorkerId worker, const std::string& failure) {
    const std::lock_guard lock(mutex_);
    membership_.take_end(worker, failure, Clock::now());
  }
  /// Leaves the note that a member of the epoch is lost, for those that still form it.
  void record_loss(std::uint64_t epoch, const std::string& why) {
    meetings_->publish_loss(epoch, why, [this](const std::string& key, std::string value) {
      server_->set(key, std::move(value));
    });
  }
  /// Leaves the record of how the process has ended, for the ranks that have lost it.
  void record_end(launcher::WorkerId worker, const EndedRank& ended) {
    server_->set(to_hex(JobId{}) + "/" + bootstrap::end_key(worker), to_text(ended));
  }
  void use(std::vector<launcher::Host> hosts) {
    const std::lock_guard lock(mutex_);
    membership_.set_hosts(std::move(hosts), Clock::now());
  }

 private:
  void turn() {
    pollfd entry{meetings_->event(), POLLIN, 0};
    (void)::poll(&entry, 1, 5);
    const std::lock_guard lock(mutex_);
    for (const auto& arrival : meetings_->take_arrivals()) membership_.take_arrival(arrival, Clock::now());
    membership_.tick(Clock::now());
    for (const auto& action : membership_.take_actions())
      meetings_->publish(
          action, [&](const std::string& key, std::string value) { server_->set(key, std::move(value)); });
  }

  std::mutex mutex_;
  launcher::Membership membership_;
  std::unique_ptr<launcher::Meetings> meetings_;
  std::unique_ptr<store::RendezvousServer> server_;
  std::jthread thread_;
};

/// Limits of a job that begins with `np` ranks.
inline launcher::MembershipLimits limits_of(int np, int min_np, int max_np = 0) {
  return {.first_np = np, .min_np = min_np, .max_np = std::max(np, max_np), .spares = 0, .reset_limit = {}};
}

}  // namespace dabke::test
