// Many clients in one process come to the meetings of an elastic job. The store is the one that dabkerun
// serves, and the membership is dabkerun's. Prints the seconds of each meeting: from the moment in which all
// clients may come to the last client that has its place.
#include <poll.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "launcher/elastic/meetings.h"
#include "launcher/elastic/membership.h"
#include "runtime/base/hmac.h"
#include "runtime/bootstrap/elastic/meeting.h"
#include "runtime/store/http_store.h"
#include "runtime/store/rendezvous_server.h"

namespace {

using namespace dabke;
using launcher::Membership;

/// dabkerun's part: a store that is served, and a thread that decides.
class Launcher {
 public:
  explicit Launcher(int clients)
      : membership_(
            {.first_np = clients, .min_np = clients, .max_np = clients, .spares = 0, .reset_limit = {}}),
        meetings_(launcher::Meetings::open(to_hex(JobId{})).take()),
        server_(store::RendezvousServer::listen({"127.0.0.1"}, JobId{}, JobKey{}).take()) {
    server_->on_set(
        [this](const std::string& key, const std::string& value) { meetings_->offer(key, value); });
    (void)server_->start();
    membership_.set_hosts({{"a", clients}}, Clock::now());
    (void)membership_.take_actions();  // the starts of processes, which the clients represent
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) turn();
    });
  }
  /// The job's part of the store, for one client.
  std::shared_ptr<store::Store> client() const {
    return store::with_prefix(store::open_http_store(server_->url(), JobId{}, JobKey{}).take(),
                              to_hex(JobId{}));
  }

 private:
  void turn() {
    pollfd entry{meetings_->event(), POLLIN, 0};
    (void)::poll(&entry, 1, 5);
    const TimePoint now = Clock::now();
    for (const auto& arrival : meetings_->take_arrivals()) membership_.take_arrival(arrival, now);
    for (const auto& action : membership_.take_actions())
      meetings_->publish(
          action, [&](const std::string& key, std::string value) { server_->set(key, std::move(value)); });
  }

  Membership membership_;
  std::unique_ptr<launcher::Meetings> meetings_;
  std::unique_ptr<store::RendezvousServer> server_;
  std::jthread thread_;
};

/// Comes to every meeting. Returns true if each gave it the same rank among all clients.
bool take_part(store::Store& job, int worker, int clients, int meetings, std::barrier<>& gate) {
  bool is_good = true;
  for (int meeting = 0; meeting < meetings; ++meeting) {
    bootstrap::Arrival arrival{.worker = worker,
                               .visit = static_cast<std::uint64_t>(meeting) + 1,
                               .epoch = static_cast<std::uint64_t>(meeting),
                               .host = "a",
                               .process = links::identity_of_this_process(),
                               .process_sets = {}};
    if (meeting > 0) arrival.commit = static_cast<std::uint64_t>(meeting);
    gate.arrive_and_wait();  // the main thread takes the time
    const auto met = bootstrap::come_to_meeting(job, arrival, Clock::now() + std::chrono::minutes(2));
    if (!met.is_ok()) std::fprintf(stderr, "client %d: %s\n", worker, met.status().message().c_str());
    const auto* const place = met.is_ok() ? std::get_if<bootstrap::EpochPlace>(&*met) : nullptr;
    is_good = is_good && place != nullptr && place->rank == worker &&
              static_cast<int>(place->plan.members.size()) == clients;
    gate.arrive_and_wait();
  }
  return is_good;
}

}  // namespace

int main(int argc, char** argv) {
  int clients = 1024, meetings = 30;
  CLI::App app("Clients of one process come to the meetings of an elastic job.");
  app.add_option("--clients", clients, "Threads, each of which is a client")->capture_default_str();
  app.add_option("--meetings", meetings, "Meetings of all clients")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  const Launcher job(clients);
  std::barrier gate(clients + 1);
  std::atomic<int> failures = 0;
  std::vector<std::jthread> threads;
  for (int worker = 0; worker < clients; ++worker) {
    threads.emplace_back([&, worker, store = job.client()] {
      if (!take_part(*store, worker, clients, meetings, gate)) ++failures;
    });
  }
  for (int meeting = 0; meeting < meetings; ++meeting) {
    gate.arrive_and_wait();
    const TimePoint begin = Clock::now();
    gate.arrive_and_wait();
    std::printf("%.6f\n", std::chrono::duration<double>(Clock::now() - begin).count());
    std::fflush(stdout);
  }
  threads.clear();
  if (failures > 0) std::fprintf(stderr, "%d clients did not get their places\n", failures.load());
  return failures > 0 ? 1 : 0;
}
