#include "generate_devices.h"

#include "random.h"

namespace storm {
namespace {

std::uint64_t hash_of(const std::string& text) {
  std::uint64_t result = 0;
  for (const char c : text) result = hash(result, static_cast<unsigned char>(c));
  return result;
}

void place(Call& call, const Program& program, std::uint64_t draw) {
  call.is_on_device =
      call.kind != Kind::barrier && draw % 100 < static_cast<std::uint64_t>(program.device_percent);
  if (call.is_on_device && call.ending == Ending::mismatch && (draw >> 8) % 4 == 0)
    call.difference = Difference::device;
  for (Call& follower : call.followers) place(follower, program, hash(draw));
}

}  // namespace

void place_on_devices(Program& program) {
  Random random(hash(program.seed, 0xDE71CE));
  program.device_percent = random.one_of({20, 50, 100});
  for (Epoch& epoch : program.epochs) {
    const char* const operations =
        random.one_of({"", "", "", "nccl", "hierarchical", "hierarchical", "host"});
    if (*operations != '\0') epoch.knobs["GPU_OPERATIONS"] = operations;
    if (random.chance(40)) epoch.knobs["NUM_NCCL_STREAMS"] = random.one_of({"2", "3"});
    for (Phase& phase : epoch.phases) {
      // Phases that repeat have the same places, so that batches are learned. In
      // other phases, a name may have another.
      for (Call& call : phase.calls)
        place(call, program, hash(program.seed, phase.order, hash_of(call.key), call.set));
      for (SetChange& change : phase.changes) {
        for (Call& orphan : change.orphans) place(orphan, program, hash(program.seed, orphan.id));
      }
    }
    for (Call& leftover : epoch.leftovers) place(leftover, program, hash(program.seed, leftover.id));
  }
}

}  // namespace storm
