// Allreduce of float32 between hosts: Dabke's choice for each size beside Gloo alone, in one process set.
//
// benchmarks/between_hosts.py makes the hosts and runs this. All contenders take turns in every round,
// so a noisy machine disturbs all of them equally. Times are medians over the rounds, and ratios are
// medians of the ratios of each round.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <semaphore>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>

#include "ops/gloo/gloo_backend.h"
#include "ops/gloo/gloo_context.h"
#include "ops/gloo/gloo_device.h"
#include "ops/registry.h"
#include "runtime/backend/backend_runner.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/links/network.h"

using namespace dabke;

namespace {

using Microseconds = std::chrono::duration<double, std::micro>;

struct Contender {
  std::string name;
  std::function<Status(float* data, std::size_t elements)> allreduce;
};

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

class Bench {
 public:
  Bench(const Config& config, bootstrap::Bootstrapped place)
      : config_(config),
        place_(std::move(place)),
        context_{place_.world, config_, place_.store, guard_, Log()} {
    for (Rank rank = 0; rank < place_.world.size; ++rank) all_.ranks.push_back(rank);
    all_.rank = place_.world.rank;
    again_ = all_;
    again_.id = 1;
  }

  Status open() {
    DABKE_ASSIGN_OR_RETURN(backends_, ops::make_host_backends(context_));
    runner_.emplace(backends_);
    gloo_ = std::make_unique<ops::GlooBackend>(context_);
    gloo_runner_.emplace(std::vector<Backend*>{gloo_.get()});
    contenders_.push_back(
        {"dabke", [this](float* data, std::size_t n) { return runner_->run(batch_of(all_, data, n)); }});
    contenders_.push_back({"gloo backend", [this](float* data, std::size_t n) {
                             return gloo_runner_->run(batch_of(again_, data, n));
                           }});
    DABKE_ASSIGN_OR_RETURN(const links::SocketAddress address, links::listening_address(place_.world));
    DABKE_ASSIGN_OR_RETURN(device_, ops::GlooDevice::open(address, guard_));
    DABKE_RETURN_IF_ERROR(add_own_algorithm("gloo ring", ring_, gloo::AllreduceOptions::Algorithm::RING));
    return add_own_algorithm("gloo bcube", bcube_, gloo::AllreduceOptions::Algorithm::BCUBE);
  }

  Status measure(std::size_t bytes) {
    const std::size_t elements = bytes / sizeof(float);
    const int calls = bytes <= 65536 ? 40 : bytes <= (4 << 20) ? 5 : 1;
    const int rounds = bytes <= (4 << 20) ? 15 : 7;
    std::vector<std::vector<double>> times(contenders_.size());
    std::vector<double> against_ring, against_best, against_backend;
    std::size_t wrong = 0;
    std::vector<float> data(elements);
    for (int round = -1; round < rounds; ++round) {  // the first warms up
      for (std::size_t i = 0; i < contenders_.size(); ++i) {
        // The connections to measure have rested while the other contenders ran.
        DABKE_RETURN_IF_ERROR(contenders_[i].allreduce(data.data(), elements));
        std::ranges::fill(data, 1.0f);
        float barrier = 0;
        DABKE_RETURN_IF_ERROR(contenders_[i].allreduce(&barrier, 1));
        const auto start = std::chrono::steady_clock::now();
        for (int call = 0; call < calls; ++call)
          DABKE_RETURN_IF_ERROR(contenders_[i].allreduce(data.data(), elements));
        const double each = Microseconds(std::chrono::steady_clock::now() - start).count() / calls;
        float want = 1;
        for (int call = 0; call < calls; ++call) want *= static_cast<float>(place_.world.size);
        wrong += elements - static_cast<std::size_t>(std::ranges::count(data, want));
        if (round >= 0) times[i].push_back(each);
      }
      if (round < 0) continue;
      against_ring.push_back(times[2].back() / times[0].back());
      against_best.push_back(std::min(times[2].back(), times[3].back()) / times[0].back());
      against_backend.push_back(times[1].back() / times[0].back());
    }
    if (place_.world.rank != 0) return {};
    fmt::print("| {} | {} |", bytes, choose(elements).name());
    for (const auto& one : times) fmt::print(" {:.1f} |", median(one));
    fmt::print(" {:.2f} ({:.2f} to {:.2f}) | {:.2f} | {:.2f} | {} |\n", median(against_ring),
               std::ranges::min(against_ring), std::ranges::max(against_ring), median(against_best),
               median(against_backend), wrong);
    std::fflush(stdout);
    return {};
  }

  void print_head() const {
    if (place_.world.rank != 0) return;
    fmt::print(
        "| bytes | by | dabke, us | Gloo backend | Gloo's ring | Gloo's bcube | ring / dabke | best of both "
        "/ dabke | "
        "Gloo backend / dabke | wrong |\n|---|---|---|---|---|---|---|---|---|---|\n");
  }

 private:
  Status add_own_algorithm(const std::string& name, std::unique_ptr<ops::GlooContext>& context,
                           gloo::AllreduceOptions::Algorithm algorithm) {
    context = std::make_unique<ops::GlooContext>(*device_, all_, guard_, Duration::zero());
    DABKE_RETURN_IF_ERROR(context->connect(*place_.store, name, deadline_after(config_.start_timeout),
                                           [] { return Status(); }));
    contenders_.push_back({name, [&context, algorithm](float* data, std::size_t elements) {
                             gloo::AllreduceOptions options(context->gloo());
                             options.setAlgorithm(algorithm);
                             options.setTag(context->next_tag());
                             options.setReduceFunction(
                                 [](void* into, const void* a, const void* b, std::size_t n) {
                                   gloo::sum<float>(into, a, b, n);
                                 });
                             options.setOutput(data, elements);
                             gloo::allreduce(options);
                             return Status();
                           }});
    return {};
  }

  Batch batch_of(const ProcessSetInfo& set, float* data, std::size_t elements) {
    Batch batch;
    batch.order = ++order_;
    batch.process_set = &set;
    batch.entries.push_back({data, data, static_cast<std::int64_t>(elements), {}, {}});
    return batch;
  }

  Backend& choose(std::size_t elements) {
    return *runner_->find(CallSpec(), {elements * sizeof(float), all_.size()}, all_);
  }

  Config config_;
  bootstrap::Bootstrapped place_;
  ForkGuard guard_;
  BackendContext context_;
  ProcessSetInfo all_;
  ProcessSetInfo again_;  // the same ranks, for a second backend of a name
  std::vector<std::unique_ptr<Backend>> backends_;
  std::unique_ptr<Backend> gloo_;
  std::unique_ptr<ops::GlooDevice> device_;
  std::unique_ptr<ops::GlooContext> ring_, bcube_;
  std::optional<BackendRunner> runner_, gloo_runner_;
  std::vector<Contender> contenders_;
  std::uint64_t order_ = 0;
};

Status run() {
  DABKE_ASSIGN_OR_RETURN(const Config config, config_from_environment(process_environment()));
  DABKE_ASSIGN_OR_RETURN(bootstrap::Bootstrapped place,
                         bootstrap::bootstrap(config, process_environment(), nullptr));
  Bench bench(config, std::move(place));
  DABKE_RETURN_IF_ERROR(bench.open());
  bench.print_head();
  for (const std::size_t bytes :
       {8u, 1u << 10, 8u << 10, 64u << 10, 256u << 10, 1u << 20, 4u << 20, 16u << 20, 64u << 20})
    DABKE_RETURN_IF_ERROR(bench.measure(bytes));
  return {};
}

}  // namespace

int main() {
  const Status status = run();
  if (!status.is_ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.is_ok() ? 0 : 1;
}
