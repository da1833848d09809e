#include "runtime/bootstrap/roster.h"

#include <algorithm>
#include <array>
#include <optional>
#include <thread>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/base/ended_rank.h"
#include "runtime/base/hmac.h"
#include "runtime/bootstrap/elastic/words.h"
#include "runtime/bootstrap/placement_note.h"
#include "runtime/call/process_set_list.h"
#include "runtime/store/init_failure.h"
#include "runtime/store/init_watch.h"

namespace dabke::bootstrap {
namespace {

using namespace std::chrono_literals;

constexpr const char* kEpochKey = "epoch";
constexpr const char* kOpenedKey = "opened";
constexpr const char* kWaitingKey = "waiting";
/// Rank 0 may have begun to wait a little later than the others, and its verdict is worth more than theirs.
/// So they wait this much longer for it. Rank 0 also waits this long for ranks that must receive an error.
constexpr Duration kLastAhead = 1s;
/// The time before a rank reports that it waits for rank 0, because rank 0 usually comes at the same time.
constexpr Duration kQuietWait = 250ms;
/// The longest interval at which a rank that waits for a roster checks that the roster can
/// still come.
constexpr Duration kLongestLook = 2s;
/// A network file system may show for a while an entry that has been removed.
constexpr Duration kStalePause = 20ms;
/// The interval at which ranks check whether a process that came has died since, and the time for its
/// replacement.
constexpr Duration kDeathLook = 250ms;
constexpr Duration kReplacement = 1s;
constexpr std::size_t kMostAbsentNamed = 8;
constexpr std::size_t kHelloLines = 5;

std::string hello_key(std::uint64_t epoch, Rank rank) { return fmt::format("{}/hello/{}", epoch, rank); }
std::string roster_key(std::uint64_t epoch) { return fmt::format("{}/roster", epoch); }
std::string waiting_key(Rank rank) { return fmt::format("{}/{}", kWaitingKey, rank); }

/// The current value, or nothing; a missing value is not an error.
Result<std::optional<std::string>> look(store::Store& store, const std::string& key) {
  auto value = store.get(key, Clock::now());
  if (value.is_ok()) return std::optional(value.take());
  if (value.status().code() == Code::timeout) return std::optional<std::string>();
  return value.status();
}

Status size_mismatch(Rank a, int size_a, Rank b, std::string_view size_b) {
  return {Code::mismatch,
          fmt::format("rank {} was started with a size of {}, rank {} with a size of {}; all ranks of a job "
                      "must have the same",
                      a, size_a, b, size_b)};
}

/// The open epoch, and the number of ranks for which rank 0 has opened it: "3 4".
struct Opened {
  std::uint64_t epoch = 0;
  int size = 0;

  std::string text() const { return fmt::format("{} {}", epoch, size); }
  static std::optional<Opened> read(std::string_view text) {
    const auto space = text.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    const auto epoch = number_of<std::uint64_t>(text.substr(0, space)),
               size = number_of<std::uint64_t>(text.substr(space + 1));
    return epoch && size ? std::optional(Opened{*epoch, static_cast<int>(*size)}) : std::nullopt;
  }
};

/// The absent ranks, of which the first are named.
struct Absent {
  std::vector<std::string> named;
  std::size_t count = 0;

  void add(std::string who) {
    if (++count <= kMostAbsentNamed) named.push_back(std::move(who));
  }
  std::string text() const {
    std::string who = fmt::format("rank{} {}", count > 1 ? "s" : "", fmt::join(named, ", "));
    if (count > named.size()) who += fmt::format(" and {} more", count - named.size());
    return who;
  }
};

/// The roster of an epoch, as one rank reads it.
struct Verdict {
  std::vector<std::string> hosts;
  std::vector<links::ProcessIdentity> processes;
  bool is_in = false;  // this process is the one that counts for its rank
};

class Meeting {
 public:
  Meeting(store::Store& job, const Hello& self, const Config& config, TimePoint deadline, std::string token,
          const WaitReports& reports)
      : job_(job),
        self_(self),
        patience_(config.start_timeout),
        init_(init_name(config)),
        deadline_(deadline),
        token_(std::move(token)),
        reports_(reports),
        reports_at_(reports.write_line ? Clock::now() + reports.first : kNever) {}

  /// For rank 0.
  Result<Roster> open();
  /// For the other ranks.
  Result<Roster> join();

 private:
  struct Member {
    Rank rank = 0;
    std::string token, host, process;
    TimePoint ended_at = kNever;  // when its process was seen to have ended
  };

  std::string hello() const {
    return fmt::format("{}\n{}\n{}\n{}\n{}\n", token_, self_.size, self_.host, self_.process_sets,
                       links::to_text(process_));
  }
  Result<std::vector<Member>> gather(std::uint64_t epoch);
  bool is_dead(const links::ProcessIdentity& process) const {
    return process_.shares_pids_with(process) && process.pid != process_.pid && links::has_ended(process.pid);
  }
  Status check_lives(std::uint64_t epoch, std::vector<Member>& members) const;
  Status check_ended() const;
  Status bury_root(std::uint64_t epoch, const links::ProcessIdentity& root);
  Status named(const Status& status) const;
  Result<std::string> await_hello(std::uint64_t epoch, Rank rank, TimePoint until,
                                  std::vector<Member>& members);
  std::vector<PlacedRanks> placement(std::uint64_t epoch) const;
  std::vector<Rank> absent_ranks(std::uint64_t epoch) const;
  void report(const std::string& what);
  std::uint64_t last_epoch() const;
  Result<Member> check(Rank rank, const std::string& hello) const;
  Status close(std::uint64_t epoch, const Result<std::vector<Member>>& members);
  /// True if this process takes part in the open epoch. In a job's first epoch all processes were started
  /// together, so another size is a mistake to be reported. Later, a process of another size is new and waits
  /// for another epoch.
  bool is_for_us(const Opened& open) const { return open.size == self_.size || open.epoch == 1; }
  Result<Opened> wait_until_open(std::uint64_t turned_away);
  Result<std::variant<std::string, Opened>> wait_for_roster(const Opened& open);
  Result<Verdict> read(const std::string& roster) const;
  Status explain(std::uint64_t epoch, const std::string& what, const std::string& more) const;
  std::string no_call_of(const std::string& who) const {
    return fmt::format("{} did not call {}", who, init_);
  }
  Status explain_absence(std::uint64_t epoch) const;
  Status explain_root(std::uint64_t turned_away) const;

  store::Store& job_;
  const Hello& self_;
  const double patience_;
  const std::string_view init_;  // in the program's language
  const TimePoint deadline_;
  const std::string token_;
  const links::ProcessIdentity process_ = links::identity_of_this_process();
  const WaitReports& reports_;
  TimePoint reports_at_;
};

/// Known only in the first epoch: later, ranks may have other numbers.
std::vector<PlacedRanks> Meeting::placement(std::uint64_t epoch) const {
  if (epoch > 1) return {};
  const auto note = job_.get(kPlacementKey, Clock::now());
  return note.is_ok() ? read_placement_note(*note) : std::vector<PlacedRanks>();
}

std::vector<Rank> Meeting::absent_ranks(std::uint64_t epoch) const {
  std::vector<Rank> absent;
  for (Rank rank = 0; rank < self_.size; ++rank) {
    if (!job_.get(hello_key(epoch, rank), Clock::now()).is_ok()) absent.push_back(rank);
  }
  return absent;
}

void Meeting::report(const std::string& what) {
  reports_.write_line(fmt::format("{} (for {:g} s at most: DABKE_START_TIMEOUT_SECONDS)", what, patience_));
  reports_at_ = Clock::now() + reports_.again;
}

/// An error of this rank itself, in the words in which the others get it.
Status Meeting::named(const Status& status) const {
  return {status.code(), fmt::format("rank {} on {}: {}", self_.rank, self_.host, status.message())};
}

Result<std::string> Meeting::await_hello(std::uint64_t epoch, Rank rank, TimePoint until,
                                         std::vector<Member>& members) {
  for (;;) {
    const TimePoint next = std::min({until, reports_at_, Clock::now() + kDeathLook});
    auto hello = job_.get(hello_key(epoch, rank), next);
    if (!hello.is_ok() && hello.status().code() == Code::transport) return named(hello.status());
    if (hello.is_ok() || hello.status().code() != Code::timeout || until <= next) return hello;
    DABKE_RETURN_IF_ERROR(check_ended());
    DABKE_RETURN_IF_ERROR(check_lives(epoch, members));
    if (Clock::now() < reports_at_) continue;
    const std::vector<Rank> absent = absent_ranks(epoch);
    const auto come = static_cast<std::size_t>(self_.size) - absent.size();
    if (!absent.empty())
      report(fmt::format("{} of {} ranks have called dabke_init; waiting for {}", come, self_.size,
                         name_ranks(absent, placement(epoch))));
  }
}

Result<Meeting::Member> Meeting::check(Rank rank, const std::string& hello) const {
  const auto lines = lines_of(hello);
  if (lines.size() != kHelloLines)
    return Status(Code::internal, fmt::format("rank {} left an invalid hello in the store", rank));
  if (lines[1] != std::to_string(self_.size)) return size_mismatch(0, self_.size, rank, lines[1]);
  if (lines[3] != self_.process_sets) return process_sets_mismatch(self_.process_sets, rank, lines[3]);
  return Member{rank, lines[0], lines[2], lines[4]};
}

/// An error if a process that came has ended since and no other has come in its place.
Status Meeting::check_lives(std::uint64_t epoch, std::vector<Member>& members) const {
  for (Member& member : members) {
    if (member.ended_at == kNever) {
      if (is_dead(links::parse_process(member.process))) member.ended_at = Clock::now();
      continue;
    }
    const auto again = job_.get(hello_key(epoch, member.rank), Clock::now());
    auto other = again.is_ok() ? check(member.rank, *again) : Result<Member>(again.status());
    if (other.is_ok() && other->token != member.token) {
      member = other.take();
    } else if (Clock::now() >= member.ended_at + kReplacement) {
      std::vector<std::string> hosts(static_cast<std::size_t>(self_.size));
      hosts[static_cast<std::size_t>(member.rank)] = member.host;
      return store::process_ended_in_init(member.rank, hosts, links::parse_process(member.process).pid);
    }
  }
  return {};
}

/// An error if a process that dabkerun started has ended, and the job is to consist of all these processes.
Status Meeting::check_ended() const {
  const auto found = job_.get(kFirstEndedKey, Clock::now());
  const auto ended = found.is_ok() ? read_ended_rank(*found) : std::nullopt;
  if (!ended || ended->size != self_.size || ended->rank == self_.rank) return {};
  return {Code::peer_lost,
          fmt::format("rank {} on {} ended with status {} before calling {}; all {} ranks must call it",
                      ended->rank, ended->host, ended->status, init_, self_.size)};
}

/// Rank 0: all members, by rank.
Result<std::vector<Meeting::Member>> Meeting::gather(std::uint64_t epoch) {
  std::vector<Member> members;
  Status wrong;
  TimePoint until = deadline_;
  for (Rank rank = 0; rank < self_.size; ++rank) {
    const auto hello =
        rank == 0 ? Result<std::string>(this->hello()) : await_hello(epoch, rank, until, members);
    if (!hello.is_ok() && hello.status().code() == Code::timeout)
      return wrong.is_ok() ? explain_absence(epoch) : wrong;
    if (!hello.is_ok()) return hello.status();
    auto member = check(rank, *hello);
    if (member.is_ok()) {
      members.push_back(member.take());
    } else if (wrong.is_ok()) {
      wrong = member.status();
      until = std::min(deadline_, Clock::now() + kLastAhead);
    }
  }
  if (!wrong.is_ok()) return wrong;
  return members;
}

/// Removes `opened` before it writes the roster. So a rank that has read the roster can find no open epoch
/// except a later one.
Status Meeting::close(std::uint64_t epoch, const Result<std::vector<Member>>& members) {
  DABKE_ASSIGN_OR_RETURN(const auto opened, look(job_, kOpenedKey));
  if (opened != Opened{epoch, self_.size}.text()) {
    return {Code::invalid_argument,
            fmt::format("another process became rank 0 while this one waited in epoch {} at {}; start every "
                        "rank once, and give every job its own DABKE_RENDEZVOUS",
                        epoch, job_.describe())};
  }
  std::string roster = "hosts\n";
  if (members.is_ok()) {
    for (const Member& member : *members)
      roster += fmt::format("{} {} {}\n", member.token, member.process, member.host);
  } else {
    const Status found =
        members.status().code() == Code::interrupted
            ? store::init_failure_of(fmt::format("rank {} on {}", self_.rank, self_.host), members.status())
            : members.status();
    roster = fmt::format("error\n{}\n{}\n", static_cast<int>(found.code()), one_line(found.message()));
  }
  DABKE_RETURN_IF_ERROR(job_.remove_all(kOpenedKey));
  return job_.set(roster_key(epoch), roster);
}

Result<Roster> Meeting::open() {
  DABKE_ASSIGN_OR_RETURN(const std::uint64_t epoch, draw_epoch(job_));
  // Only tidying: the ranks that left these entries wait for the next line. Before the first epoch there are
  // usually none.
  if (epoch > 1) (void)job_.remove_all(kWaitingKey);
  DABKE_RETURN_IF_ERROR(job_.set(kOpenedKey, Opened{epoch, self_.size}.text()));  // all wait for it
  DABKE_RETURN_IF_ERROR(job_.set(hello_key(epoch, 0), hello()));
  const auto members = gather(epoch);
  const Status closed = close(epoch, members);
  if (!members.is_ok() && closed.code() != Code::invalid_argument) return members.status();
  if (!closed.is_ok()) return closed;
  Roster roster{epoch, {}};
  for (const Member& member : *members) {
    roster.hosts.push_back(member.host);
    roster.processes.push_back(links::parse_process(member.process));
  }
  return roster;
}

/// `turned_away` is the epoch whose roster is closed and lacks this process, or 0.
Result<Opened> Meeting::wait_until_open(std::uint64_t turned_away) {
  const TimePoint until = deadline_ + kLastAhead;
  const TimePoint quiet = std::min(until, Clock::now() + kQuietWait);
  bool is_quiet = true;
  while (true) {
    const bool reports = self_.rank == 1 && turned_away == 0 && !is_quiet && reports_at_ < until;
    const TimePoint next = is_quiet ? quiet : reports ? reports_at_ : until;
    const TimePoint look = std::min(next, Clock::now() + store::look_interval(self_.size));
    const auto opened = job_.get(kOpenedKey, look);
    if (opened.is_ok()) {
      const auto open = Opened::read(*opened);
      if (!open) return Status(Code::internal, fmt::format("rank 0 opened epoch '{}'", *opened));
      if (open->epoch > turned_away) return *open;
      if (Clock::now() >= until) return explain_root(turned_away);
      std::this_thread::sleep_for(kStalePause);
    } else if (opened.status().code() != Code::timeout) {
      return opened.status();
    } else if (look < next) {
      DABKE_RETURN_IF_ERROR(check_ended());
    } else if (is_quiet) {
      is_quiet = false;
      DABKE_RETURN_IF_ERROR(job_.set(waiting_key(self_.rank), std::to_string(self_.size)));
    } else if (reports) {
      report(fmt::format("waiting for {}, which has not called dabke_init",
                         name_ranks({0}, placement(last_epoch() + 1))));
    } else {
      return explain_root(turned_away);
    }
  }
}

std::uint64_t Meeting::last_epoch() const {
  const auto drawn = job_.get(kEpochKey, Clock::now());
  return drawn.is_ok() ? number_of<std::uint64_t>(*drawn).value_or(0) : 0;
}

Result<Verdict> Meeting::read(const std::string& roster) const {
  auto lines = lines_of(roster);
  const std::string kind = lines.empty() ? "" : lines[0];
  if (kind == "error" && lines.size() >= 3) {
    const auto code = number_of<std::uint64_t>(lines[1]);
    return Status(code.value_or(0) == 0 ? Code::internal : static_cast<Code>(*code), lines[2]);
  }
  if (kind != "hosts") return Status(Code::internal, "rank 0 left an invalid roster in the store");
  Verdict verdict;
  const auto me = static_cast<std::size_t>(self_.rank);
  for (std::size_t rank = 0; rank + 1 < lines.size(); ++rank) {
    const std::string& line = lines[rank + 1];
    const auto space = line.find(' '), second = line.find(' ', space + 1);
    if (space == std::string::npos || second == std::string::npos)
      return Status(Code::internal, "rank 0 left an invalid roster in the store");
    if (rank == me) verdict.is_in = line.substr(0, space) == token_;
    verdict.processes.push_back(links::parse_process(line.substr(space + 1, second - space - 1)));
    verdict.hosts.push_back(line.substr(second + 1));
  }
  return verdict;
}

/// Writes the end of the epoch in place of rank 0, whose process has ended. New processes wait for the next
/// epoch.
Status Meeting::bury_root(std::uint64_t epoch, const links::ProcessIdentity& root) {
  const auto hello = job_.get(hello_key(epoch, 0), Clock::now());
  const auto lines = hello.is_ok() ? lines_of(*hello) : std::vector<std::string>();
  const Status why = store::process_ended_in_init(
      0, lines.size() < 3 ? std::vector<std::string>() : std::vector{lines[2]}, root.pid);
  const auto opened = look(job_, kOpenedKey);
  if (opened.is_ok() && *opened == Opened{epoch, self_.size}.text()) (void)job_.remove_all(kOpenedKey);
  (void)job_.set(roster_key(epoch),
                 fmt::format("error\n{}\n{}\n", static_cast<int>(why.code()), one_line(why.message())));
  return why;
}

/// The roster that rank 0 leaves, or a later epoch that has been opened meanwhile. Then this epoch's rank 0
/// is gone, or the epoch is over.
Result<std::variant<std::string, Opened>> Meeting::wait_for_roster(const Opened& open) {
  using Either = std::variant<std::string, Opened>;
  const TimePoint until = deadline_ + kLastAhead;
  std::optional<links::ProcessIdentity> root;
  TimePoint root_ended_at = kNever;
  for (Duration pause = kQuietWait;; pause = std::min(2 * pause, kLongestLook)) {
    if (root && process_.shares_pids_with(*root)) pause = std::min(pause, kDeathLook);
    const TimePoint next = std::min(until, Clock::now() + pause);
    auto roster = job_.get(roster_key(open.epoch), next);
    if (roster.is_ok()) return Either(roster.take());
    if (roster.status().code() != Code::timeout) return roster.status();
    if (next == until && !is_for_us(open))
      return size_mismatch(0, open.size, self_.rank, std::to_string(self_.size));
    if (next == until) return explain_absence(open.epoch);
    if (is_for_us(open)) DABKE_RETURN_IF_ERROR(check_ended());
    DABKE_ASSIGN_OR_RETURN(const auto opened, look(job_, kOpenedKey));
    const auto later = opened ? Opened::read(*opened) : std::nullopt;
    if (later && later->epoch > open.epoch) {
      // Rank 0 may have written the roster since it was last read. If this process is in it, the others count
      // on this process.
      roster = job_.get(roster_key(open.epoch), Clock::now());
      return roster.is_ok() ? Either(roster.take()) : Either(*later);
    }
    if (!root) {
      const auto hello = job_.get(hello_key(open.epoch, 0), Clock::now());
      const auto lines = hello.is_ok() ? lines_of(*hello) : std::vector<std::string>();
      if (lines.size() == kHelloLines) root = links::parse_process(lines[4]);
    }
    if (root_ended_at == kNever && root && is_dead(*root)) root_ended_at = Clock::now();
    if (root_ended_at == kNever) continue;
    if (Clock::now() >= root_ended_at + kReplacement) return bury_root(open.epoch, *root);
  }
}

Result<Roster> Meeting::join() {
  DABKE_ASSIGN_OR_RETURN(Opened open, wait_until_open(0));
  while (true) {
    if (is_for_us(open)) {
      DABKE_RETURN_IF_ERROR(job_.set(hello_key(open.epoch, self_.rank), hello()));
    } else {
      DABKE_RETURN_IF_ERROR(job_.set(waiting_key(self_.rank), std::to_string(self_.size)));
    }
    DABKE_ASSIGN_OR_RETURN(const auto found, wait_for_roster(open));
    if (const auto* const later = std::get_if<Opened>(&found)) {
      open = *later;
      continue;
    }
    if (is_for_us(open)) {
      DABKE_ASSIGN_OR_RETURN(const Verdict verdict, read(std::get<std::string>(found)));
      if (verdict.is_in) return Roster{open.epoch, verdict.hosts, verdict.processes};
    }
    DABKE_ASSIGN_OR_RETURN(open, wait_until_open(open.epoch));
  }
}

Status Meeting::explain(std::uint64_t epoch, const std::string& what, const std::string& more) const {
  return {Code::timeout, fmt::format("{} within {} s (DABKE_START_TIMEOUT_SECONDS); start all {} ranks, or "
                                     "raise that limit. Rank {} waited in epoch {} at {}{}",
                                     what, patience_, self_.size, self_.rank, epoch, job_.describe(), more)};
}

/// The error that names the ranks absent from this epoch, or one that waits for an epoch of another size.
Status Meeting::explain_absence(std::uint64_t epoch) const {
  const std::vector<Rank> ranks = absent_ranks(epoch);
  const std::vector<PlacedRanks> placed = placement(epoch);
  Absent absent;
  for (const Rank rank : ranks) {
    absent.add(std::to_string(rank));
    if (absent.count > kMostAbsentNamed) continue;
    const auto waits = job_.get(waiting_key(rank), Clock::now());
    if (waits.is_ok() && *waits != std::to_string(self_.size))
      return size_mismatch(0, self_.size, rank, *waits);
  }
  return explain(epoch,
                 ranks.empty()    ? "rank 0 came, but left no list of hosts"
                 : placed.empty() ? no_call_of(absent.text())
                                  : no_call_of(name_ranks(ranks, placed)),
                 "");
}

/// The error if rank 0 has opened no epoch for this process. It names the other absent ranks and what is
/// known of the last epoch.
Status Meeting::explain_root(std::uint64_t turned_away) const {
  const std::uint64_t last = last_epoch();
  if (const auto placed = placement(last + 1); !placed.empty()) {
    std::vector<Rank> ranks{0};
    for (Rank rank = 1; rank < self_.size; ++rank) {
      if (rank != self_.rank && !job_.get(waiting_key(rank), Clock::now()).is_ok()) ranks.push_back(rank);
    }
    return explain(1, no_call_of(name_ranks(ranks, placed)), "");
  }
  Absent absent;
  absent.add(last == 0 ? "0" : fmt::format("0 (last in epoch {})", last));
  for (Rank rank = 1; rank < self_.size; ++rank) {
    if (rank != self_.rank && !job_.get(waiting_key(rank), Clock::now()).is_ok())
      absent.add(std::to_string(rank));
  }
  if (last == 0) return explain(1, no_call_of(absent.text()), "");
  std::string more =
      ". An interrupted job in the same place opens epochs, too, and so does a second process with rank 0: "
      "give every job its own DABKE_RENDEZVOUS";
  const auto roster = job_.get(roster_key(last), Clock::now());
  const auto verdict = roster.is_ok() ? std::optional(read(*roster)) : std::nullopt;
  Code code = Code::timeout;
  if (verdict && !verdict->is_ok()) {
    more += fmt::format(". Rank 0 reported of epoch {}: {}", last, verdict->status().message());
  } else if (verdict && !(*verdict)->is_in) {
    const int size = static_cast<int>((*verdict)->hosts.size());
    if (size != self_.size) {
      code = Code::mismatch;
      more += fmt::format(". Of epoch {}: {}", last,
                          size_mismatch(0, size, self_.rank, std::to_string(self_.size)).message());
    } else if (turned_away == last) {
      more += fmt::format(". In epoch {} another process is rank {}", last, self_.rank);
    }
  }
  return {code, explain(last + 1, no_call_of(absent.text()), more).message()};
}

}  // namespace

Result<Roster> meet(store::Store& job, const Hello& self, const Config& config, TimePoint deadline,
                    const WaitReports& reports) {
  std::array<std::byte, 8> noise{};
  DABKE_RETURN_IF_ERROR(random_bytes(noise));
  Meeting meeting(job, self, config, deadline, to_hex(noise), reports);
  return self.rank == 0 ? meeting.open() : meeting.join();
}

Result<std::uint64_t> draw_epoch(store::Store& job) { return job.increment(kEpochKey); }

void sweep(store::Store& job, std::uint64_t epoch) {
  constexpr std::uint64_t kMostAtOnce = 8;
  for (std::uint64_t old = epoch > kMostAtOnce ? epoch - kMostAtOnce : 1; old < epoch; ++old) {
    // Only tidying: entries that cannot be removed now cost a little space and do no harm.
    (void)job.remove_all(std::to_string(old));
  }
}

std::string process_sets_of(const Config& config, int size) {
  const auto sets = parse_process_sets(config.process_sets, size);
  return one_line(sets.is_ok() ? process_sets_to_string(*sets) : config.process_sets);
}

Status process_sets_mismatch(const std::string& of_root, Rank rank, const std::string& theirs) {
  return {Code::mismatch,
          fmt::format(
              "rank 0 was started with process sets '{}', rank {} with '{}'; all ranks of a job must have "
              "the same in the same order (DABKE_PROCESS_SETS, then dabke_init's options)",
              of_root, rank, theirs)};
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

}  // namespace dabke::bootstrap
