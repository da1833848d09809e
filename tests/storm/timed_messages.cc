#include "timed_messages.h"

#include <unistd.h>

#include <algorithm>

#include "faults.h"
#include "random.h"

namespace storm {
namespace {

constexpr std::uint64_t kFirstId = 1'000'000;  // no other call has such an id
constexpr useconds_t kLateUs = 30'000;         // longer than the delay of a fault

TimedMessage message(Random& random, const Program& program, bool is_sender_late, bool is_large,
                     bool is_from_any) {
  auto ranks = list_of((1U << program.ranks) - 1);
  random.shuffle(ranks);
  TimedMessage timed;
  timed.is_sender_late = is_sender_late;
  Call& call = timed.call;
  call.kind = Kind::message;
  call.root = ranks[0];
  call.to = ranks[1];
  call.tag = random.between(0, 2);
  call.is_from_any = is_from_any;
  call.takers = 1U << call.root | 1U << call.to;
  // The ranks compute each element, so a large message has few: the widest ones.
  if (is_large) {
    call.tensors.push_back({"", random.one_of({Dtype::i64, Dtype::u64}), {random.between(1, 8) << 17}});
  } else {
    call.tensors.push_back({"", static_cast<Dtype>(random.below(kDtypes)), {random.between(1, 400)}});
  }
  return timed;
}

void run(const Here& here, const TimedMessage& timed, Part& part) {
  const bool is_late = here.rank == timed.late();
  const int peer = is_late ? timed.early() : timed.late();
  const std::string line = "message " + std::to_string(timed.number) + " ";
  if (is_late) {
    wait_for_note(peer, line + "submitted");
    reached(Point::awaited, timed.number);
    ::usleep(kLateUs);
  }
  part.submit(false);
  if (has_lost()) return;
  note(line + "submitted");
  if (!is_late) reached(Point::announced, timed.number);
  if (has_fault_at(Point::moving, timed.number)) {
    wait_for_note(peer, line + "submitted");
    reached(Point::moving, timed.number);
  }
  const bool is_ok = part.wait() == DABKE_OK;
  if (is_ok) {
    note(line + "ended");
    reached(Point::ended, timed.number);
  }
  part.finish();
  if (!is_ok && here.rank == timed.call.to) note(line + "arrived " + std::to_string(part.arrived_permille()));
}

}  // namespace

void add_messages(Program& program) {
  if (program.ranks < 2) return;
  Random random(hash(program.seed, 0x3E55A6E5));
  int number = 0;
  for (Epoch& epoch : program.epochs) {
    for (const bool is_large : {false, true}) {
      for (const bool is_sender_late : {false, true})
        epoch.messages.push_back(message(random, program, is_sender_late, is_large, false));
      epoch.messages.push_back(message(random, program, true, is_large, true));
    }
    random.shuffle(epoch.messages);
    // The ends of this message have another one before. Ends that have not met connect first, so the sender
    // could not complete while the receiver is stopped.
    const auto small = std::ranges::find_if(epoch.messages, [](const TimedMessage& timed) {
      return timed.is_sender_late && !timed.call.is_from_any &&
             elements_of(timed.call.tensors[0].shape) < 1000;
    });
    const TimedMessage before = *small;
    epoch.messages.insert(small, before);
    for (TimedMessage& timed : epoch.messages) {
      timed.number = number++;
      timed.call.id = kFirstId + static_cast<std::uint64_t>(timed.number);
      timed.call.tensors[0].name = "timed " + std::to_string(timed.number);
      timed.call.key = "message " + timed.call.tensors[0].name;
    }
  }
}

std::vector<std::unique_ptr<Part>> run_messages(const Here& here) {
  std::vector<std::unique_ptr<Part>> parts;
  for (const TimedMessage& timed : here.epoch.messages) {
    if (has_lost()) break;
    if (!has(timed.call.takers, here.rank)) continue;
    const Random random(hash(here.program.seed, timed.call.id, here.rank));
    parts.push_back(std::make_unique<Part>(here, timed.call, 0, 1, random));
    run(here, timed, *parts.back());
  }
  return parts;
}

}  // namespace storm
