#include "tests/in_process/job.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "ops/nccl/nccl_backend.h"
#include "ops/registry.h"
#include "tests/facts.h"
#include "tests/fake_device/fake_device_backend.h"
#include "tests/in_process/double_device.h"
#include "tests/in_process/sim_channel.h"
#include "tests/in_process/threads_backend.h"
#include "tests/patience.h"

namespace dabke::test {
namespace {

constexpr auto kPatience = std::chrono::seconds(test::kSanitized ? 400 : 180);
// The limit for the rest to end once the job was aborted.
constexpr auto kAbortPatience = std::chrono::seconds(60);

using Channel = Result<std::unique_ptr<control::ControlChannel>>;

/// Runs `function` on all indices. Ranks that hang are described and aborted, and the test fails.
void run_watched(int count, const std::function<void(int)>& function,
                 const std::function<std::string()>& describe, const std::function<void()>& abort) {
  RankThreads threads(count, function, abort);
  std::string hang;
  if (!threads.wait_for(kPatience)) {
    hang = fmt::format("ranks hang after {} s:\n{}", kPatience.count(), describe());
    std::fprintf(stderr, "%s\n", hang.c_str());
    abort();
    if (!threads.wait_for(kAbortPatience)) {
      std::fprintf(stderr, "and did not even end when the job was aborted:\n%s\n", describe().c_str());
      std::_Exit(1);  // a thread that waits for ever cannot be ended in another way
    }
  }
  const std::exception_ptr thrown = threads.join();
  if (!hang.empty()) throw std::runtime_error(hang);
  if (thrown) std::rethrow_exception(thrown);
}

World world_of(int rank, int size, const Setup& setup, const JobId& id) {
  World world;
  world.job_id = id;
  std::memset(world.job_key.data(), 0x5a, world.job_key.size());
  world.rank = world.local_rank = rank;
  world.size = world.local_size = size;
  for (int other = 0; other < size; ++other) world.hosts.push_back(setup.host(other, size));
  return world;
}

JobId fresh_job_id() {
  std::random_device random;
  JobId id;
  for (std::byte& byte : id) byte = static_cast<std::byte>(random());
  return id;
}

}  // namespace

Config quiet_config() {
  Config config;
  config.log_level = LogLevel::fatal;  // errors here are on purpose, or the test reports them
  config.dump_dir = "none";
  config.disable_native_stacks = true;
  return config;
}

Job::Job(const Setup& setup, int size, const Config& config) {
  open(setup, size, [&](int) { return config; });
}

Job::Job(const Setup& setup, int size, const std::function<Config(int rank)>& config_of) {
  open(setup, size, config_of);
}

void Job::open(const Setup& setup, int size, const std::function<Config(int rank)>& config_of) {
  const auto store = store::make_memory_store();
  const auto network = std::make_shared<SimNetwork>(size);
  const auto hub = std::make_shared<ThreadsHub>();
  const auto device_hub = std::make_shared<ThreadsHub>();
  const JobId id = fresh_job_id();
  ranks_.resize(static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i) knives_.push_back(std::make_shared<DroppableChannel::Knife>());
  const auto open_one = [&](int rank) {
    core::Runtime::Factories factories{ops::make_backends};
    factories.channel = [&, make = factories.channel](const BackendContext& context) -> Channel {
      auto made = setup.control == Setup::Control::sim ? Channel(network->open(rank)) : make(context);
      if (!made) return made;
      return Channel(std::make_unique<DroppableChannel>(
          made.take(), core::topology_of(context.world, context.config)->neighbours(rank),
          knives_[static_cast<std::size_t>(rank)]));
    };
    Config config = config_of(rank);
    if (!setup.cpu_operations.empty()) config.cpu_operations = setup.cpu_operations;
    if (!setup.gpu_operations.empty()) config.gpu_operations = setup.gpu_operations;
    std::shared_ptr<TestDevice> tensors;
    if (setup.data == Setup::Data::nccl) {
      config.module_path = MODULE_PATH;
      tensors = must(open_double(config, setup.first_device + rank));
      factories.open_device =
          ops::device_opener(config, [](const std::string&) { return std::optional<std::string>(); });
      factories.device_route = ops::device_route;
    } else if (setup.is_on_device()) {
      const auto device = std::make_shared<FakeDevice>(rank % 2, static_cast<unsigned>(rank));
      tensors = device;
      factories.open_device = [device](Device wanted) -> Result<std::shared_ptr<DeviceStream>> {
        if (wanted.index == device->index()) return device->open_stream();
        return Status(Code::unsupported, "there is no such device");
      };
    }
    const bool takes_library = setup.data == Setup::Data::library ||
                               (setup.data == Setup::Data::nccl && !setup.cpu_operations.empty());
    if (!takes_library) {
      factories.backends = [&](const BackendContext& context) {
        Backends backends;
        backends.host.push_back(std::make_unique<ThreadsBackend>(hub));
        if (setup.data == Setup::Data::nccl) backends.device.push_back(must(ops::open_nccl_backend(context)));
        if (setup.data == Setup::Data::device)
          backends.device.push_back(std::make_unique<FakeDeviceBackend>(device_hub));
        return Result(std::move(backends));
      };
    }
    ranks_[static_cast<std::size_t>(rank)] = std::make_unique<Rank>(
        rank, must(core::Runtime::open(config, {world_of(rank, size, setup, id), store}, factories)),
        tensors);
  };
  run_watched(
      size, open_one, [] { return std::string("opening the ranks"); }, [] {});
}

Job::~Job() {
  try {
    run_watched(
        size(), [this](int index) { rank(index).close(); }, [this] { return describe(); }, [] {});
  } catch (const std::exception& hang) {
    std::fprintf(stderr, "while shutting down: %s\n", hang.what());
    std::_Exit(1);
  }
}

void Job::run_threads(const std::function<void(int index)>& function) {
  const auto run_one = [&](int index) {
    rank(index).set_phase("running");
    function(index);
    rank(index).set_phase("done");
  };
  const auto abort = [this] {
    for (const auto& rank : ranks_) rank->runtime().abort("the test has failed");
  };
  run_watched(
      size(), run_one, [this] { return describe(); }, abort);
}

std::string Job::describe() {
  std::string text;
  for (const auto& rank : ranks_) text += "  " + rank->describe() + "\n";
  return text;
}

}  // namespace dabke::test
