// One rank of the conformance matrix over the MPI backend, started by mpirun: MPI allows one rank a process.
//
//   mpi_conformance_worker abort         a run that other ranks never join ends with the abort's cause
//   mpi_conformance_worker ROUND_BYTES   the bytes that the backend stages at once; a small number makes many
//                                        rounds of small tensors
//   mpi_conformance_worker hosts         each pair of ranks pretends to have a host of its own, with the
//                                        backends that a job has
//   mpi_conformance_worker different N   rank 0 submits one tensor of N elements more than the others
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "ops/mpi/mpi_backend.h"
#include "ops/registry.h"
#include "runtime/backend/backend_runner.h"
#include "runtime/modules/module_loader.h"
#include "tests/conformance/averages.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/factors.h"
#include "tests/conformance/in_place.h"

namespace dabke::test {
namespace {

core::Runtime::Factories with_rounds_of(std::size_t bytes) {
  core::Runtime::Factories factories{ops::make_backends};
  factories.backends = [bytes](const BackendContext& context) -> Result<Backends> {
    DABKE_ASSIGN_OR_RETURN(modules::MpiSession* const session,
                           modules::load_mpi(context.config, modules::find_mpi(process_environment())));
    Backends backends;
    backends.host.push_back(std::make_unique<ops::MpiBackend>(context, *session, bytes));
    return backends;
  };
  return factories;
}

constexpr unsigned kSeed = 1;  // the same in every process

/// Puts each pair of ranks on a host of its own.
void pretend_hosts() {
  for (const char* const name : {"PMI_RANK", "OMPI_COMM_WORLD_RANK"}) {
    const char* const rank = std::getenv(name);
    if (rank != nullptr) ::setenv("DABKE_HOSTNAME", fmt::format("host{}", std::atoi(rank) / 2).c_str(), 1);
  }
}

int run(const core::Runtime::Factories& factories) {
  const Config config = must(config_from_environment(process_environment()));
  // Runs twice in one process: MPI stays, the job and its communicators are new.
  for (int init = 0; init < 2; ++init) {
    bootstrap::Bootstrapped place = must(bootstrap::bootstrap(config, process_environment()));
    Rank self(place.world.rank, must(core::Runtime::open(config, std::move(place), factories)));
    std::vector<Case> cases = cases_for(self.size(), false);
    if (init == 1) cases.resize(cases.size() / 8);
    std::ranges::shuffle(cases, std::mt19937(kSeed));
    std::vector<std::string> wrong = run_cases(self, cases, kSeed, 128);
    if (init == 0) {
      for (std::string& text : wrong_averages(self)) wrong.push_back(std::move(text));
      for (std::string& text : wrong_factors(self)) wrong.push_back(std::move(text));
      for (const InPlace& how : kInPlace) {
        if (std::string text = wrong_in_place(self, how, 400); !text.empty())
          wrong.push_back(fmt::format("{} in place: {}", name_of(how.kind), text));
      }
    }
    if (self.size() > 2) {
      const ProcessSetId odd = self.add_process_set({1, self.size() - 1});
      const ProcessSetId all_but_one = self.add_process_set({0, self.size() - 1});
      for (int round = 0; round < 5; ++round) {
        for (const ProcessSetId set : {odd, all_but_one}) {
          std::vector<std::int64_t> x{1, 2, 3};
          const int other = set == odd ? 1 : 0;
          if (self.rank() != other && self.rank() != self.size() - 1) continue;
          if (const Status status = self.allreduce(x, {.name = "x", .set = set}); !status.is_ok())
            wrong.push_back(status.message());
          if (x != std::vector<std::int64_t>{2, 4, 6}) wrong.push_back("a sum over a process set of two");
        }
      }
      must(self.remove_process_set(odd));
    }
    must(self.barrier());
    self.close();
    for (const std::string& text : wrong) std::fprintf(stderr, "%s\n", text.c_str());
    if (!wrong.empty()) return 1;
    if (self.rank() == 0) std::printf("%zu cases passed\n", cases.size());
  }
  return 0;
}

/// The backend alone, with all ranks and without a negotiation.
struct BackendAlone {
  BackendAlone() {
    for (int rank = 0; rank < place.world.size; ++rank) all.ranks.push_back(rank);
  }

  const Config config = must(config_from_environment(process_environment()));
  bootstrap::Bootstrapped place = must(bootstrap::bootstrap(config, process_environment()));
  ForkGuard fork_guard;
  ops::MpiBackend backend{{place.world, config, place.store, fork_guard, Log()},
                          *must(modules::load_mpi(config, modules::find_mpi(process_environment())))};
  BackendRunner runner{std::vector<Backend*>{&backend}};
  ProcessSetInfo all{.rank = place.world.rank};
};

/// Rank 0 submits one tensor more than the others. Prints the error of each rank.
int run_different(std::size_t elements) {
  BackendAlone alone;
  const ProcessSetInfo& all = alone.all;
  std::vector<float> data(elements, 1), more(elements, 1);
  Batch batch;
  batch.order = 5;
  batch.process_set = &all;
  batch.deadline = deadline_after(20);  // MPI itself may wait for a message that never arrives
  batch.entries.push_back({data.data(), data.data(), static_cast<std::int64_t>(elements), {}, {}});
  if (all.rank == 0)
    batch.entries.push_back({more.data(), more.data(), static_cast<std::int64_t>(elements), {}, {}});
  const Status seen = alone.runner.run(batch);
  std::printf("%s\n", seen.is_ok() ? "it ended well" : seen.message().c_str());
  // A rank that has seen the error stays until the others have seen it.
  must(alone.place.store->set(fmt::format("seen/{}", all.rank), "yes"));
  for (const int rank : all.ranks)
    must(alone.place.store->get(fmt::format("seen/{}", rank), deadline_after(200)).status());
  return 0;
}

int run_abort() {
  BackendAlone alone;
  const ProcessSetInfo& all = alone.all;
  if (all.rank == 0) {
    float x = 1;
    Batch batch;
    batch.process_set = &all;
    batch.entries.push_back({.input = &x, .output = &x, .elements = 1});
    const std::jthread aborter([&] { alone.runner.abort({Code::aborted, "that is enough"}); });
    const Status seen = alone.runner.run(batch);
    if (seen.message() != "that is enough") return 1;
    std::printf("aborted\n");
  }
  // The other ranks stay until rank 0 has seen the error.
  if (all.rank == 0) must(alone.place.store->set("seen", "yes"));
  must(alone.place.store->get("seen", deadline_after(200)).status());
  return 0;
}

}  // namespace
}  // namespace dabke::test

int main(int argc, char** argv) {
  try {
    if (argc > 1 && std::string_view(argv[1]) == "abort") return dabke::test::run_abort();
    if (argc > 2 && std::string_view(argv[1]) == "different")
      return dabke::test::run_different(std::strtoul(argv[2], nullptr, 10));
    if (argc > 1 && std::string_view(argv[1]) == "hosts") {
      dabke::test::pretend_hosts();
      return dabke::test::run({dabke::ops::make_backends});
    }
    return dabke::test::run(dabke::test::with_rounds_of(argc > 1 ? std::strtoul(argv[1], nullptr, 10)
                                                                 : dabke::ops::kMpiRoundBytes));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
