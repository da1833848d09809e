#include "benchmarks/perf/competitors/raw_gloo.h"

#include <gloo/algorithm.h>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <climits>
#include <cstring>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "runtime/base/clock.h"

namespace dabke::perf {
namespace {

constexpr double kSecondsToConnect = 30;
constexpr int kTrials = 3;

/// The job's store, with the interface that Gloo needs.
class StoreForGloo final : public gloo::rendezvous::Store {
 public:
  explicit StoreForGloo(std::shared_ptr<dabke::store::Store> store) : store_(std::move(store)) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    must(store_->set(key, {data.data(), data.size()}));
  }
  std::vector<char> get(const std::string& key) override {
    auto value = store_->get(key, deadline_after(kSecondsToConnect));
    must(value.status());
    return {value->begin(), value->end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) must(store_->get(key, deadline_after(kSecondsToConnect)).status());
  }

 private:
  static void must(const Status& status) {
    if (!status.is_ok()) throw std::runtime_error(status.message());
  }
  const std::shared_ptr<dabke::store::Store> store_;
};

using Run = std::function<void()>;
using Context = std::shared_ptr<gloo::Context>;

struct Algorithm {
  std::string name;
  std::function<Run(const Context& context, const Call& call)> make;
};

template <class T>
gloo::AllreduceOptions::Func reduce_function(ReduceOp op) {
  switch (op) {
    case ReduceOp::min:
      return [](void* c, const void* a, const void* b, std::size_t n) { gloo::min<T>(c, a, b, n); };
    case ReduceOp::max:
      return [](void* c, const void* a, const void* b, std::size_t n) { gloo::max<T>(c, a, b, n); };
    case ReduceOp::product:
      return [](void* c, const void* a, const void* b, std::size_t n) { gloo::product<T>(c, a, b, n); };
    default: return [](void* c, const void* a, const void* b, std::size_t n) { gloo::sum<T>(c, a, b, n); };
  }
}

template <class T>
const gloo::ReductionFunction<T>* reduction(ReduceOp op) {
  switch (op) {
    case ReduceOp::min: return gloo::ReductionFunction<T>::min;
    case ReduceOp::max: return gloo::ReductionFunction<T>::max;
    case ReduceOp::product: return gloo::ReductionFunction<T>::product;
    default: return gloo::ReductionFunction<T>::sum;
  }
}

template <class T>
Algorithm by_options(std::string name, gloo::AllreduceOptions::Algorithm algorithm) {
  return {std::move(name), [algorithm](const Context& context, const Call& call) -> Run {
            return [=] {
              gloo::AllreduceOptions options(context);
              const auto elements = static_cast<std::size_t>(call.elements);
              if (!call.in_place()) options.setInput(static_cast<T*>(call.input), elements);
              options.setOutput(static_cast<T*>(call.output), elements);
              options.setAlgorithm(algorithm);
              options.setReduceFunction(reduce_function<T>(call.op));
              gloo::allreduce(options);
            };
          }};
}

/// One of Gloo's older classes. They work in place, and are made once for the memory.
template <class T, template <class> class Old>
Algorithm by_class(std::string name) {
  return {std::move(name), [](const Context& context, const Call& call) -> Run {
            auto made = std::make_shared<Old<T>>(context, std::vector<T*>{static_cast<T*>(call.output)},
                                                 static_cast<int>(call.elements), reduction<T>(call.op));
            return [made, call] {
              if (!call.in_place()) std::memcpy(call.output, call.input, call.input_bytes());
              made->run();
            };
          }};
}

template <class T>
std::vector<Algorithm> allreduces() {
  // Without the older class of bcube: it reads beyond its vectors, and the
  // newer function has the same algorithm.
  return {by_options<T>("ring", gloo::AllreduceOptions::Algorithm::RING),
          by_options<T>("bcube", gloo::AllreduceOptions::Algorithm::BCUBE),
          by_class<T, gloo::AllreduceRing>("old ring"),
          by_class<T, gloo::AllreduceRingChunked>("ring chunked"),
          by_class<T, gloo::AllreduceHalvingDoubling>("halving")};
}

Run run_bytes(const Context& context, const Call& call) {
  auto* const input = static_cast<std::uint8_t*>(call.input);
  auto* const output = static_cast<std::uint8_t*>(call.output);
  const std::size_t in = call.input_bytes(), out = call.output_bytes();
  switch (call.kind) {
    case CollectiveKind::broadcast:
      return [=] {
        gloo::BroadcastOptions options(context);
        options.setRoot(0);
        if (context->rank == 0 && input != output) options.setInput(input, in);
        options.setOutput(output, out);
        gloo::broadcast(options);
      };
    case CollectiveKind::allgather:
      return [=] {
        gloo::AllgatherOptions options(context);
        options.setInput(input, in);
        options.setOutput(output, out);
        gloo::allgather(options);
      };
    case CollectiveKind::alltoall:
      return [=] {
        gloo::AlltoallOptions options(context);
        options.setInput(input, in);
        options.setOutput(output, out);
        gloo::alltoall(options);
      };
    default:
      return [=] {
        gloo::BarrierOptions options(context);
        gloo::barrier(options);
      };
  }
}

/// Gloo has no functions for bitwise operations.
bool has_function(ReduceOp op) {
  return op == ReduceOp::sum || op == ReduceOp::min || op == ReduceOp::max || op == ReduceOp::product;
}

/// Returns an empty list if Gloo has no algorithm for the call.
std::vector<Algorithm> algorithms_for(const Call& call) {
  if (call.elements > INT_MAX) return {};
  switch (call.kind) {
    case CollectiveKind::allreduce:
      if (!has_function(call.op)) return {};
      break;
    case CollectiveKind::reducescatter: return {};
    default: return {{"", &run_bytes}};
  }
  switch (call.dtype) {
    case DType::f32: return allreduces<float>();
    case DType::f64: return allreduces<double>();
    case DType::i32: return allreduces<std::int32_t>();
    case DType::i64: return allreduces<std::int64_t>();
    default: return {};
  }
}

class RawGloo final : public Competitor {
 public:
  RawGloo(std::shared_ptr<store::Store> store, Team& team) : store_(std::move(store)), team_(team) {}

  std::string name() const override { return "raw gloo"; }
  std::string detail() const override { return detail_; }
  bool can_run(const Call& call) const override { return !algorithms_for(call).empty(); }
  Status begin(const Call& call) override {
    return guarded([&]() -> Status {
      auto algorithms = algorithms_for(call);
      const std::size_t best = choose(algorithms, call);
      detail_ = algorithms[best].name;
      run_ = make(algorithms[best], call);
      return {};
    });
  }
  Status run() override {
    return guarded([&]() -> Status {
      run_();
      return {};
    });
  }
  void end() override { run_ = nullptr; }

 private:
  template <class Action>
  static Status guarded(Action action) {
    try {
      return action();
    } catch (const std::exception& error) {
      return {Code::transport, fmt::format("Gloo: {}", error.what())};
    }
  }

  /// Each algorithm has its own connections. The older classes set their send buffers to
  /// the size of their first message. After a message of 4 bytes, the other algorithms
  /// would be very slow on the same connections.
  Run make(const Algorithm& algorithm, const Call& call) {
    Context& context = contexts_[algorithm.name];
    if (!context) context = connect(algorithm.name);
    return algorithm.make(context, call);
  }

  Context connect(const std::string& name) {
    if (!device_) device_ = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr("127.0.0.1"));
    auto context = std::make_shared<gloo::rendezvous::Context>(team_.rank(), team_.size());
    StoreForGloo store(store_);
    gloo::rendezvous::PrefixStore own(name, store);
    context->connectFullMesh(own, device_);
    return context;
  }

  /// Chooses the fastest algorithm here and now, by the slowest rank; once for each size.
  std::size_t choose(std::vector<Algorithm>& algorithms, const Call& call) {
    if (algorithms.size() == 1) return 0;
    const auto key = std::tuple(call.bytes(), call.dtype, call.op, call.in_place());
    if (const auto known = chosen_.find(key); known != chosen_.end()) return known->second;
    std::vector<double> best(algorithms.size());
    for (std::size_t i = 0; i < algorithms.size(); ++i) {
      const Run run = make(algorithms[i], call);
      run();
      for (int trial = 0; trial < kTrials; ++trial) {
        team_.barrier();
        const auto begin = Clock::now();
        run();
        const double took = team_.max(std::chrono::duration<double>(Clock::now() - begin).count());
        best[i] = trial == 0 ? took : std::min(best[i], took);
      }
    }
    return chosen_[key] = static_cast<std::size_t>(std::ranges::min_element(best) - best.begin());
  }

  const std::shared_ptr<store::Store> store_;
  Team& team_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::map<std::string, Context> contexts_;  // by algorithm
  std::map<std::tuple<std::int64_t, DType, ReduceOp, bool>, std::size_t> chosen_;
  std::string detail_;
  Run run_;
};

}  // namespace

std::unique_ptr<Competitor> make_raw_gloo(std::shared_ptr<store::Store> store, Team& team) {
  return std::make_unique<RawGloo>(std::move(store), team);
}

}  // namespace dabke::perf
