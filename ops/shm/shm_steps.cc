#include "ops/shm/shm_steps.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <ctime>

namespace dabke {
namespace {

// To be woken takes as long as some hundred yields where the core has gone to sleep meanwhile.
constexpr int kYields = 100;
constexpr int kStepBits = 24;
// A rank that was missed when it lay down (publish) has slept this long for nothing.
constexpr auto kShortestNap = std::chrono::microseconds(100);
constexpr auto kLongestNap = std::chrono::milliseconds(200);

// So much of the next stage is made this core's own while nobody waits for it. From 64 KB on that saves
// nothing, and lines that leave the cache before they are written cost more.
constexpr std::size_t kReadyBytes = std::size_t{32} << 10;

constexpr std::size_t kLineBytes = sizeof(ShmLetterLine::data);
constexpr std::size_t kLetterBytes = sizeof(ShmLetter::lines) / sizeof(ShmLetterLine) * kLineBytes;

/// Calls `use(line, data, bytes)` for each line that so much data takes, and returns whether all said yes. It
/// asks all: the core then fetches them at the same time.
template <class Use>
bool for_each_line(ShmLetter& letter, std::byte* data, std::size_t bytes, Use use) {
  bool ok = true;
  for (std::size_t at = 0, line = 0; at < bytes; at += kLineBytes, ++line) {
    ok = use(letter.lines[line], data + at, std::min(kLineBytes, bytes - at)) & ok;
  }
  return ok;
}

/// Makes the line this core's own before it is needed.
void prefetch_to_write(void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" ::"m"(*static_cast<char*>(line)));  // does nothing where it is not known
#else
  __builtin_prefetch(line, 1);
#endif
}

// Not the private forms: other processes sleep on the same word.
void wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value, Duration longest) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(longest);
  const timespec time = {static_cast<time_t>(seconds.count()),
                         static_cast<long>(std::chrono::nanoseconds(longest - seconds).count())};
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, value, &time, nullptr, 0);
}

}  // namespace

ShmSteps::ShmSteps(ShmDomain& domain)
    : domain_(domain), letters_(domain.size() * kLetterBytes), seen_(domain.size()), habits_(domain.size()) {}

void ShmSteps::begin(std::uint64_t order, const std::shared_ptr<const std::vector<std::size_t>>& members,
                     TimePoint deadline) {
  if (members_ != members) members_ = members;
  deadline_ = deadline;
  if (order == order_) return;
  order_ = order;
  rounds_ = 0;
  reached_ = order << kStepBits;
}

// Not sequentially consistent, for which the core would wait until it has told the others: so a sleeper that
// has just come may be missed, whose first naps are short for that.
void ShmSteps::publish() {
  domain_.progress(domain_.own()).reached.store(++reached_, std::memory_order_release);
  wake_sleepers();
}

void ShmSteps::wake_sleepers() {
  ShmProgress& own = domain_.progress(domain_.own());
  if (own.sleepers.load(std::memory_order_relaxed) == 0) return;
  own.bell.fetch_add(1, std::memory_order_seq_cst);
  wake_all(own.bell);
}

Status ShmSteps::wait_for_all() {
  return for_each_member([this](std::size_t index) { return wait_for(index, reached_); });
}

/// First for those that need this core to come; the others come meanwhile.
template <class Wait>
Status ShmSteps::for_each_member(Wait wait) {
  for (const std::size_t index : *members_) {
    if (!habits_[index].is_worth_while()) DABKE_CHECK(wait(index));
  }
  for (const std::size_t index : *members_) DABKE_CHECK(wait(index));
  return {};
}

std::byte* ShmSteps::stage(std::size_t index) {
  return letter_bytes_ == 0 ? domain_.stage(index, stage_) : letters_.data() + index * kLetterBytes;
}

Result<std::byte*> ShmSteps::free_stage(std::size_t most_bytes) {
  stage_ = (order_ + rounds_) % kShmStages;
  most_bytes_ = most_bytes;
  letter_bytes_ = most_bytes <= kLetterBytes ? most_bytes : 0;
  if (Readers& readers = readers_[stage_]; readers.members) {
    for (const std::size_t index : *readers.members) DABKE_CHECK(wait_for(index, readers.until));
  }
  return stage(domain_.own());
}

Status ShmSteps::exchange() {
  if (letter_bytes_ == 0) {
    publish();
    prepare_next_stage();
    return wait_for_all();
  }
  send_letter();
  return for_each_member([this](std::size_t index) { return receive_letter(index); });
}

/// As a rule the others have read it by now; else they fetch a line once more. Who waits for a rank that
/// needs this very core does better to give it away.
void ShmSteps::prepare_next_stage() {
  if (most_bytes_ > kReadyBytes) return;
  if (!std::ranges::all_of(*members_, [this](std::size_t index) { return habits_[index].is_worth_while(); }))
    return;
  std::byte* const next = domain_.stage(domain_.own(), (stage_ + 1) % kShmStages);
  for (std::size_t at = 0; at < most_bytes_; at += sizeof(ShmLetterLine)) prefetch_to_write(next + at);
}

void ShmSteps::end_round() {
  Readers& readers = readers_[stage_];
  if (readers.members != members_) readers.members = members_;
  readers.until = reached_ + 1;
  ++rounds_;
  letter_bytes_ = 0;
}

void ShmSteps::send_letter() {
  ++reached_;
  ShmLetter& letter = domain_.letter(domain_.own(), stage_);
  for_each_line(letter, stage(domain_.own()), letter_bytes_,
                [this](ShmLetterLine& line, std::byte* data, std::size_t bytes) {
                  std::memcpy(line.data.data(), data, bytes);
                  line.step.store(reached_, std::memory_order_release);
                  return true;
                });
  wake_sleepers();
  // Whoever sends this letter has read the one before.
  ShmLetter& next = domain_.letter(domain_.own(), (stage_ + 1) % kShmStages);
  for_each_line(next, nullptr, letter_bytes_, [](ShmLetterLine& line, std::byte*, std::size_t) {
    prefetch_to_write(&line);
    return true;
  });
}

Status ShmSteps::receive_letter(std::size_t index) {
  if (index == domain_.own() || seen_[index] >= reached_) return {};
  ShmLetter& letter = domain_.letter(index, stage_);
  const auto has_come = [&] {
    return for_each_line(letter, nullptr, letter_bytes_,
                         [this](ShmLetterLine& line, std::byte*, std::size_t) {
                           return line.step.load(std::memory_order_acquire) == reached_;
                         });
  };
  DABKE_CHECK(wait_until(index, has_come));
  for_each_line(letter, stage(index), letter_bytes_,
                [](ShmLetterLine& line, std::byte* data, std::size_t bytes) {
                  std::memcpy(data, line.data.data(), bytes);
                  return true;
                });
  seen_[index] = reached_;
  return {};
}

Status ShmSteps::wait_for(std::size_t index, std::uint64_t value) {
  // Its line need not be fetched for what is known already.
  std::uint64_t& seen = seen_[index];
  if (index == domain_.own() || seen >= value) return {};
  const std::atomic<std::uint64_t>& reached = domain_.progress(index).reached;
  return wait_until(index, [&] {
    seen = reached.load(std::memory_order_acquire);
    return seen >= value;
  });
}

template <class IsThere>
Status ShmSteps::wait_until(std::size_t index, IsThere is_there) {
  for (Waiting wait(habits_[index], kYields); wait.again();) {
    if (is_there()) return {};
  }
  return sleep_until(domain_.progress(index), is_there);
}

template <class IsThere>
Status ShmSteps::sleep_until(ShmProgress& peer, IsThere is_there) {
  sleeps_on_.store(&peer, std::memory_order_seq_cst);
  peer.sleepers.fetch_add(1, std::memory_order_seq_cst);
  Status status;
  for (Duration nap = kShortestNap;; nap = std::min<Duration>(2 * nap, kLongestNap)) {
    const std::uint32_t bell = peer.bell.load(std::memory_order_seq_cst);
    if (is_there()) break;
    if (is_aborted_.load(std::memory_order_seq_cst)) {
      status = aborted();
      break;
    }
    const TimePoint now = Clock::now();
    if (now >= deadline_) {
      status = {Code::timeout, "not done within its limit; a rank is late, stopped or gone"};
      break;
    }
    sleep_while(peer.bell, bell, std::min<Duration>(nap, deadline_ - now));
  }
  peer.sleepers.fetch_sub(1, std::memory_order_seq_cst);
  sleeps_on_.store(nullptr, std::memory_order_seq_cst);
  return status;
}

void ShmSteps::abort(const Status& cause) {
  {
    const std::lock_guard lock(cause_mutex_);
    if (cause_.is_ok()) cause_ = Status(cause);
  }
  is_aborted_.store(true, std::memory_order_seq_cst);
  ShmProgress* const peer = sleeps_on_.load(std::memory_order_seq_cst);
  if (peer == nullptr) return;  // whoever is about to sleep asks is_aborted_ after it has said so
  peer->bell.fetch_add(1, std::memory_order_seq_cst);
  wake_all(peer->bell);
}

Status ShmSteps::aborted() const {
  const std::lock_guard lock(cause_mutex_);
  return cause_;
}

}  // namespace dabke
