#include "ops/shm/shm_steps.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <ctime>

#include <fmt/format.h>

namespace dabke::ops {
namespace {

// Waking takes as long as some hundred yields if the core has gone to sleep meanwhile.
constexpr int kYieldsForStep = 100;
constexpr int kStepBits = 24;
// The extra time that a rank sleeps if publish() missed it just as it went to sleep.
constexpr auto kShortestNap = std::chrono::microseconds(100);
constexpr auto kLongestNap = std::chrono::milliseconds(200);

// The bytes of the next stage that this core fetches while it does not have to wait for them. From 64 KB on
// that saves nothing: lines that leave the cache before they are written cost more.
constexpr std::size_t kReadyBytes = std::size_t{32} << 10;

constexpr std::size_t kLineBytes = sizeof(ShmInlineLine::data);
constexpr std::size_t kInlineBytes = sizeof(ShmInlineMessage::lines) / sizeof(ShmInlineLine) * kLineBytes;
constexpr std::size_t kMarkBytes = sizeof(BatchMark::contents);

/// Calls `use(line, data, bytes)` for each line that `bytes` of data occupy. True if all calls returned true.
/// It always makes all calls: the core then fetches the lines at the same time.
template <class Use>
bool for_each_line(ShmInlineMessage& message, std::byte* data, std::size_t bytes, Use use) {
  bool ok = true;
  for (std::size_t at = 0, line = 0; at < bytes; at += kLineBytes, ++line) {
    ok = use(message.lines[line], data + at, std::min(kLineBytes, bytes - at)) & ok;
  }
  return ok;
}

/// Fetches the line for writing before it is needed.
void prefetch_to_write(void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" ::"m"(*static_cast<char*>(line)));  // does nothing on a processor without it
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
    : domain_(domain),
      inline_messages_(domain.size() * kInlineBytes),
      seen_(domain.size()),
      habits_(domain.size()) {}

void ShmSteps::begin(const BatchMark& mark, const std::shared_ptr<const std::vector<std::size_t>>& members,
                     TimePoint deadline, WaitCheck* check) {
  if (members_ != members) members_ = members;
  deadline_ = deadline;
  check_ = check;
  mark_ = mark;
  if (mark.order != order_) {
    order_ = mark.order;
    rounds_ = 0;
    reached_ = order_ << kStepBits;
  }
  first_ = reached_ + 1;
  has_written_mark_ = has_checked_ = false;
}

// Not sequentially consistent, because then the core would wait until the other cores have seen the store. So
// it may miss a rank that is just going to sleep. The first sleeps are short for that reason.
void ShmSteps::publish() {
  if (!has_written_mark_) write_mark();
  domain_.progress(domain_.own()).reached.store(++reached_, std::memory_order_release);
  wake_sleepers();
}

/// Written together with the step, so that the others fetch the line once.
void ShmSteps::write_mark() {
  domain_.progress(domain_.own()).marks.write({first_, mark_.contents});
  has_written_mark_ = true;
}

Status ShmSteps::differs(std::size_t index, std::uint64_t step, std::uint64_t contents) const {
  return batches_differ(fmt::format("rank {}", domain_.ranks()[index]), {step >> kStepBits, contents}, mark_);
}

/// Returns an error only if the difference is certain.
Status ShmSteps::check_mark(std::size_t index) const {
  const auto theirs = domain_.progress(index).marks.instead_of({first_, mark_.contents});
  return theirs ? differs(index, theirs->step, theirs->contents) : Status();
}

Status ShmSteps::check_marks() {
  for (const std::size_t index : *members_) {
    if (index != domain_.own()) DABKE_RETURN_IF_ERROR(check_mark(index));
  }
  has_checked_ = true;
  return {};
}

/// Checks a rank that this rank waits for. It may have sent an inline message while this rank expects none.
Status ShmSteps::check_letters(std::size_t index) {
  for (std::size_t which = 0; which < kShmStages; ++which) {
    const ShmInlineLine& line = domain_.inline_message(index, which).lines[0];
    const std::uint64_t step = line.step.load(std::memory_order_acquire);
    if (step < reached_) continue;
    std::uint64_t contents = 0;  // a message of this step stays until this rank goes on
    std::memcpy(&contents, line.data.data(), sizeof contents);
    if (step > reached_ || contents != mark_.contents) return differs(index, step, contents);
  }
  return {};
}

void ShmSteps::wake_sleepers() {
  ShmProgress& own = domain_.progress(domain_.own());
  if (own.sleepers.load(std::memory_order_relaxed) == 0) return;
  own.bell.fetch_add(1, std::memory_order_seq_cst);
  wake_all(own.bell);
}

Status ShmSteps::wait_for_all() {
  DABKE_RETURN_IF_ERROR(for_each_member([this](std::size_t index) { return wait_for(index, reached_); }));
  return has_checked_ ? Status() : check_marks();
}

/// Waits first for the ranks that need this core to make progress. The others make progress meanwhile.
template <class Wait>
Status ShmSteps::for_each_member(Wait wait) {
  for (const std::size_t index : *members_) {
    if (!habits_[index].is_worth_while()) DABKE_RETURN_IF_ERROR(wait(index));
  }
  for (const std::size_t index : *members_) DABKE_RETURN_IF_ERROR(wait(index));
  return {};
}

std::byte* ShmSteps::stage(std::size_t index) {
  return inline_bytes_ == 0 ? domain_.stage(index, stage_) : inline_message_of(index) + kMarkBytes;
}

std::byte* ShmSteps::inline_message_of(std::size_t index) {
  return inline_messages_.data() + index * kInlineBytes;
}

Result<std::byte*> ShmSteps::free_stage(std::size_t most_bytes) {
  stage_ = (order_ + rounds_) % kShmStages;
  most_bytes_ = most_bytes;
  const bool goes_inline = most_bytes != 0 && most_bytes <= kInlineBytes - kMarkBytes;
  inline_bytes_ = goes_inline ? kMarkBytes + most_bytes : 0;
  if (Readers& readers = readers_[stage_]; readers.members) {
    for (const std::size_t index : *readers.members) DABKE_RETURN_IF_ERROR(wait_for(index, readers.until));
  }
  return stage(domain_.own());
}

Status ShmSteps::exchange() {
  if (inline_bytes_ == 0) {
    publish();
    prepare_next_stage();
    return wait_for_all();
  }
  send_letter();
  DABKE_RETURN_IF_ERROR(for_each_member([this](std::size_t index) { return receive_letter(index); }));
  has_checked_ = true;
  return {};
}

/// Usually the others have read the next stage by now; if not, they fetch a line once more. If a rank needs
/// this very core, giving the core away is better.
void ShmSteps::prepare_next_stage() {
  if (most_bytes_ > kReadyBytes) return;
  if (!std::ranges::all_of(*members_, [this](std::size_t index) { return habits_[index].is_worth_while(); }))
    return;
  std::byte* const next = domain_.stage(domain_.own(), (stage_ + 1) % kShmStages);
  for (std::size_t at = 0; at < most_bytes_; at += sizeof(ShmInlineLine)) prefetch_to_write(next + at);
}

void ShmSteps::end_round() {
  Readers& readers = readers_[stage_];
  if (readers.members != members_) readers.members = members_;
  readers.until = reached_ + 1;
  ++rounds_;
  inline_bytes_ = 0;
}

Result<bool> ShmSteps::all_agree(bool yes) {
  DABKE_ASSIGN_OR_RETURN(std::byte* const own, free_stage(1));
  own[0] = std::byte{yes};
  DABKE_RETURN_IF_ERROR(exchange());
  bool all = true;
  for (std::size_t set_rank = 0; set_rank < members_->size(); ++set_rank)
    all = all && *stage_of(set_rank) == std::byte{1};
  end_round();
  return all;
}

void ShmSteps::send_letter() {
  ++reached_;
  ShmInlineMessage& message = domain_.inline_message(domain_.own(), stage_);
  std::memcpy(inline_message_of(domain_.own()), &mark_.contents, kMarkBytes);
  for_each_line(message, inline_message_of(domain_.own()), inline_bytes_,
                [this](ShmInlineLine& line, std::byte* data, std::size_t bytes) {
                  std::memcpy(line.data.data(), data, bytes);
                  line.step.store(reached_, std::memory_order_release);
                  return true;
                });
  wake_sleepers();
  // A rank that sends this message has read the one before.
  ShmInlineMessage& next = domain_.inline_message(domain_.own(), (stage_ + 1) % kShmStages);
  for_each_line(next, nullptr, inline_bytes_, [](ShmInlineLine& line, std::byte*, std::size_t) {
    prefetch_to_write(&line);
    return true;
  });
}

Status ShmSteps::receive_letter(std::size_t index) {
  if (index == domain_.own() || seen_[index] >= reached_) return {};
  ShmInlineMessage& message = domain_.inline_message(index, stage_);
  const auto has_come = [&] {
    return for_each_line(message, nullptr, inline_bytes_,
                         [this](ShmInlineLine& line, std::byte*, std::size_t) {
                           return line.step.load(std::memory_order_acquire) == reached_;
                         });
  };
  DABKE_RETURN_IF_ERROR(wait_until(index, has_come));
  for_each_line(message, inline_message_of(index), inline_bytes_,
                [](ShmInlineLine& line, std::byte* data, std::size_t bytes) {
                  std::memcpy(data, line.data.data(), bytes);
                  return true;
                });
  std::uint64_t contents = 0;
  std::memcpy(&contents, inline_message_of(index), kMarkBytes);
  if (contents != mark_.contents) return differs(index, reached_, contents);
  seen_[index] = reached_;
  return {};
}

Status ShmSteps::wait_for(std::size_t index, std::uint64_t value) {
  // Steps that were seen already need no fetch of the rank's line.
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
  for (shm::Waiting wait(habits_[index], kYieldsForStep); wait.again();) {
    if (is_there()) return {};
  }
  return sleep_until(index, is_there);
}

template <class IsThere>
Status ShmSteps::sleep_until(std::size_t index, IsThere is_there) {
  ShmProgress& peer = domain_.progress(index);
  sleeps_on_.store(&peer, std::memory_order_seq_cst);
  peer.sleepers.fetch_add(1, std::memory_order_seq_cst);
  Status status;
  for (Duration nap = kShortestNap;; nap = std::min<Duration>(2 * nap, kLongestNap)) {
    const std::uint32_t bell = peer.bell.load(std::memory_order_seq_cst);
    if (is_there()) break;
    if (is_aborted()) {
      status = aborted();
      break;
    }
    // Messages that the rank sent before it went past have arrived by now.
    Status out_of_step = check_mark(index);
    if (out_of_step.is_ok()) out_of_step = check_letters(index);
    if (!out_of_step.is_ok() && !is_there()) {
      status = std::move(out_of_step);
      break;
    }
    const TimePoint now = Clock::now();
    if (now >= deadline_) {
      status = {Code::timeout, "not finished within its limit; a rank is late, stopped or gone"};
      break;
    }
    const TimePoint until = check_ == nullptr ? deadline_ : std::min(deadline_, check_->due());
    if (now < until) {
      sleep_while(peer.bell, bell, std::min<Duration>(nap, until - now));
    } else if (check_->stops()) {
      status = check_->end_job();
      break;
    }
  }
  peer.sleepers.fetch_sub(1, std::memory_order_seq_cst);
  sleeps_on_.store(nullptr, std::memory_order_seq_cst);
  return status;
}

void ShmSteps::abort(const Status& cause) {
  latch_.abort(cause);
  ShmProgress* const peer = sleeps_on_.load(std::memory_order_seq_cst);
  if (peer == nullptr)
    return;  // a thread that is about to sleep checks the latch after it has set sleeps_on_
  peer->bell.fetch_add(1, std::memory_order_seq_cst);
  wake_all(peer->bell);
}

}  // namespace dabke::ops
