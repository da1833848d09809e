// One rank of a random program.
//
//   storm_worker SEED          runs it; a launcher has started the processes of the plan
//   storm_worker --plan SEED   prints how the job must be started
//   storm_worker --show SEED   prints the whole program
//   storm_worker --points SEED prints how often each rank reaches each point, for tests/fault
//   storm_worker --messages SEED  prints the timed messages, for tests/fault
//   storm_worker --hand RANK   strikes the rank that has started it, which is a process of another kind
//
// Environment:
//   STORM_DEVICES   1: some of the tensors are on fake CUDA devices
//   STORM_MESSAGES  1: the program has timed messages (timed_messages.h)
//   STORM_FORBID_READS  1: the rank may not read the memory of other processes
//   STORM_PATIENCE  seconds without any progress that count as a hang (60)
//   STORM_MISTAKE   what the last rank does wrong on purpose, "value" or "stop"
//   STORM_STEADY    how often the last phase of each epoch is repeated
//   and the variables of faults.h
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "device.h"
#include "faults.h"
#include "generate_devices.h"
#include "program.h"
#include "rank.h"
#include "reduce.h"
#include "refusals.h"
#include "report.h"
#include "scratch.h"
#include "tests/forbid_remote_reads.h"
#include "timed_messages.h"

namespace storm {
namespace {

int number_in(std::initializer_list<const char*> variables, int otherwise) {
  for (const char* variable : variables) {
    if (const char* value = std::getenv(variable)) return std::atoi(value);
  }
  return otherwise;
}

void print_plan(const Program& program) {
  std::printf("ranks %d\nstarter %s\n", program.ranks, program.starter.c_str());
}

void print_points(const Program& program) {
  for (int rank = 0; rank < program.ranks; ++rank) {
    for (const Point point : kPoints)
      std::printf("%d %s %d\n", rank, name_of(point), count_of(program, point, rank));
  }
}

void print_messages(const Program& program) {
  for (const Epoch& epoch : program.epochs) {
    Ranks connected[kMostRanks] = {};
    for (const auto& [number, call, is_sender_late] : epoch.messages) {
      const Tensor& tensor = call.tensors[0];
      const auto bytes = elements_of(tensor.shape) * static_cast<std::int64_t>(size_of(tensor.dtype));
      const bool have_met = has(connected[call.root], call.to);
      std::printf("%d %d %d %d %lld %d %d\n", number, call.root, call.to, is_sender_late ? 1 : 0,
                  static_cast<long long>(bytes), call.is_from_any ? 1 : 0, have_met ? 1 : 0);
      for (const int end : {call.root, call.to}) connected[end] |= call.takers;
    }
  }
}

void print_program(const Program& program) {
  std::printf("seed %llu: %d ranks, %s, %d a host, %d %% registered, pace %d\n",
              static_cast<unsigned long long>(program.seed), program.ranks, program.starter.c_str(),
              program.ranks_per_host, program.registered_percent, program.pace);
  for (const Epoch& epoch : program.epochs) {
    std::printf("epoch:");
    for (const auto& [name, value] : epoch.knobs) std::printf(" DABKE_%s=%s", name.c_str(), value.c_str());
    std::printf("%s, %d static sets\n", epoch.knobs_differ ? " (not on odd ranks)" : "", epoch.static_sets);
    for (std::size_t i = 0; i < epoch.sets.size(); ++i)
      std::printf("  set %zu: ranks %s\n", i, text_of(epoch.sets[i].ranks).c_str());
    for (std::size_t i = 0; i < epoch.phases.size(); ++i) {
      const Phase& phase = epoch.phases[i];
      std::printf("  phase %zu%s%s, %d refusals\n", i, phase.is_traced ? ", traced" : "",
                  phase.is_dumped ? ", dumped" : "", phase.refusals);
      for (const SetChange& change : phase.changes)
        std::printf("    change %d of set %d\n", static_cast<int>(change.what), change.set);
      for (const Call& call : phase.calls) {
        std::printf("    call %llu in set %d: '%.60s' %s%s%s, ending %d\n",
                    static_cast<unsigned long long>(call.id), call.set, call.key.c_str(),
                    call.describe().c_str(), call.is_last ? ", last" : "", call.is_kept ? ", kept" : "",
                    static_cast<int>(call.ending));
      }
      for (const int set : phase.joins) std::printf("    join of set %d\n", set);
    }
    std::printf("  %zu left over\n", epoch.leftovers.size());
  }
}

Mistake mistake_of(const Program& program, int rank) {
  const char* text = std::getenv("STORM_MISTAKE");
  if (text == nullptr || rank != program.ranks - 1) return Mistake::none;
  return std::string(text) == "value" ? Mistake::value : Mistake::stop;
}

int run(const Program& program) {
  const int rank = number_in({"DABKE_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK"}, 0);
  set_speaker(program.seed, rank);
  prepare_faults(rank);
  if (number_in({"STORM_FORBID_READS"}, 0) != 0 && !dabke::test::forbid_remote_reads())
    wrong("has no filters of system calls");
  if (program.device_percent != 0) load_doubles();
  start_watchdog(number_in({"STORM_PATIENCE"}, 60));
  if (program.ranks_per_host != 0)
    ::setenv("DABKE_HOSTNAME", ("host-" + std::to_string(rank / program.ranks_per_host)).c_str(), 1);
  ::setenv("DABKE_DUMP_DIR", "none", 0);
  ::setenv("DABKE_START_TIMEOUT_SECONDS", "120", 0);
  std::atomic<Mistake> mistake = mistake_of(program, rank);
  be_refused_outside();
  for (const Epoch& epoch : program.epochs) {
    if (!has_lost()) Rank(program, epoch, rank, mistake).run();
  }
  run_again(program, rank);
  be_refused_outside();
  remove_scratch();
  note("done");
  std::printf("rank %d is done\n", rank);
  return 0;
}

}  // namespace
}  // namespace storm

int main(int argc, char** argv) {
  ::setenv("DABKE_TIMELINE_FORMAT", "horovod", 0);  // each process names a file of its own
  if (argc < 2) return 2;
  const std::string first = argv[1];
  if (first == "--hand" && argc > 2) storm::strike_parent(std::atoi(argv[2]));
  const bool asks = first == "--plan" || first == "--show" || first == "--points" || first == "--messages";
  if (asks && argc < 3) return 2;
  const int steady = storm::number_in({"STORM_STEADY"}, 0);
  storm::Program program = storm::program_of(std::strtoull(argv[asks ? 2 : 1], nullptr, 10), steady);
  if (storm::number_in({"STORM_DEVICES"}, 0) != 0) storm::place_on_devices(program);
  if (storm::number_in({"STORM_MESSAGES"}, 0) != 0) storm::add_messages(program);
  if (const char* without = std::getenv("STORM_WITHOUT")) storm::reduce(program, without);
  if (first == "--plan") return storm::print_plan(program), 0;
  if (first == "--points") return storm::print_points(program), 0;
  if (first == "--messages") return storm::print_messages(program), 0;
  if (first == "--show") return storm::print_program(program), 0;
  return storm::run(program);
}
