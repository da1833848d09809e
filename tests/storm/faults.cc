#include "faults.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <thread>
#include <vector>

#include "random.h"
#include "report.h"

namespace storm {
namespace {

struct Fault {
  int rank = 0, nth = 0;
  long delay_us = 0;
  std::string point, action, argument;
};

constexpr std::chrono::seconds kNoteLimit{1};
constexpr std::chrono::microseconds kNotePause{50};

struct FaultState {
  int rank = 0;
  int journal = -1;
  int to_hand = -1;    // the pipe to the striking process
  int from_hand = -1;  // gets a byte after garbage was sent
  std::vector<Fault> faults;
  int times[std::size(kPoints)] = {};
  std::atomic<bool> has_lost = false;
  std::string notes;  // of all ranks, as far as this rank has read the journal
};
FaultState& fault_state() {
  static FaultState& one = *new FaultState;  // threads may end after main
  return one;
}

const char* setting(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? "" : text;
}

std::vector<Fault> faults_of(const std::string& text) {
  std::vector<Fault> faults;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Fault fault;
    words >> fault.rank >> fault.point >> fault.nth >> fault.delay_us >> fault.action >> std::ws;
    std::getline(words, fault.argument);
    faults.push_back(fault);
  }
  return faults;
}

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// Returns none if the process has ended.
std::vector<int> descriptors_of(pid_t process) {
  std::vector<int> all;
  std::error_code ended;
  std::filesystem::directory_iterator entry("/proc/" + std::to_string(process) + "/fd", ended);
  for (; !ended && entry != std::filesystem::directory_iterator(); entry.increment(ended))
    all.push_back(std::atoi(entry->path().filename().c_str()));
  return all;
}

void limit_files(pid_t victim, int more) {
  const std::vector<int> open = descriptors_of(victim);
  if (open.empty()) return;
  const auto limit = static_cast<rlim_t>(std::ranges::max(open) + 1 + more);
  const rlimit limits{limit, limit};
  ::prlimit(victim, RLIMIT_NOFILE, &limits, nullptr);
}

/// Sends garbage through all TCP connections of the victim, as if the victim had sent it.
void send_garbage(pid_t victim, int bytes) {
  const auto process = static_cast<int>(::syscall(SYS_pidfd_open, victim, 0));
  std::vector<char> garbage;
  for (int i = 0; i < bytes; ++i) garbage.push_back(static_cast<char>(hash(bytes, i)));
  int reached = 0;
  for (const int descriptor : descriptors_of(victim)) {
    const auto copy = static_cast<int>(::syscall(SYS_pidfd_getfd, process, descriptor, 0));
    if (copy < 0) continue;
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    const bool is_connection = ::getpeername(copy, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
                               (peer.ss_family == AF_INET || peer.ss_family == AF_INET6);
    if (is_connection && ::send(copy, garbage.data(), garbage.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
                             static_cast<ssize_t>(bytes))
      ++reached;
    ::close(copy);
  }
  ::close(process);
  note("garbage " + std::to_string(reached));
}

void strike(const Fault& fault, std::size_t number, pid_t victim) {
  sleep_for(static_cast<double>(fault.delay_us) * 1e-6);
  note("fault " + std::to_string(number) + " " + fault.action);
  if (fault.action == "kill") {
    ::kill(victim, SIGKILL);
  } else if (fault.action == "stop") {
    ::kill(victim, SIGSTOP);
    sleep_for(std::atof(fault.argument.c_str()));
    ::kill(victim, SIGCONT);
  } else if (fault.action == "stop-and-kill") {
    ::kill(victim, SIGSTOP);
    sleep_for(std::atof(fault.argument.c_str()));
    ::kill(victim, SIGKILL);
  } else if (fault.action == "files") {
    limit_files(victim, std::atoi(fault.argument.c_str()));
  } else if (fault.action == "garbage") {
    send_garbage(victim, std::atoi(fault.argument.c_str()));
  } else if (std::system(fault.argument.c_str()) != 0) {
    note("unable " + std::to_string(number));
  }
  note("over " + std::to_string(number));
}

/// Runs as the striking process. It ends with its victim, which closes the pipe.
[[noreturn]] void be_the_hand(int orders, int answers, pid_t victim) {
  ::signal(SIGPIPE, SIG_IGN);
  ::setenv("STORM_VICTIM", std::to_string(victim).c_str(), 1);
  std::uint8_t number = 0;
  while (::read(orders, &number, 1) == 1) {
    const Fault& fault = fault_state().faults[number];
    if (::getppid() == victim) strike(fault, number, victim);
    if (fault.action == "garbage" && ::write(answers, &number, 1) != 1) break;
  }
  ::_exit(0);
}

/// Returns false if there is no campaign. Otherwise the faults are known afterwards.
bool open_journal(int rank) {
  const std::string journal = setting("STORM_JOURNAL");
  if (journal.empty()) return false;
  FaultState& here = fault_state();
  here.rank = rank;
  here.journal = ::open(journal.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (here.journal < 0) wrong("cannot write its journal to " + journal);
  here.faults = faults_of(setting("STORM_FAULTS"));
  return true;
}

bool is_loss(dabke_status status) {
  switch (status) {
    case DABKE_ERROR_PEER_LOST:
    case DABKE_ERROR_ABORTED:
    case DABKE_ERROR_OUT_OF_MEMORY:
    case DABKE_ERROR_SHUT_DOWN:
    case DABKE_ERROR_STALLED:
    case DABKE_ERROR_TIMEOUT:
    case DABKE_ERROR_TRANSPORT: return true;
    default: return false;
  }
}

bool is_due(const Fault& fault, Point point, int nth) {
  return fault.rank == fault_state().rank && fault.point == name_of(point) && fault.nth == nth;
}

/// True for later errors of calls after the job has ended: for example, a new process set has no id.
bool follows_from_loss(dabke_status status) {
  return status == DABKE_ERROR_UNKNOWN_PROCESS_SET || status == DABKE_ERROR_NOT_INITIALIZED;
}

}  // namespace

void strike_parent(int rank) {
  if (!open_journal(rank)) std::_Exit(2);
  be_the_hand(STDIN_FILENO, STDOUT_FILENO, ::getppid());
}

const char* name_of(Point point) {
  switch (point) {
    case Point::init: return "init";
    case Point::step: return "step";
    case Point::change: return "change";
    case Point::join: return "join";
    case Point::leave: return "leave";
    case Point::awaited: return "awaited";
    case Point::announced: return "announced";
    case Point::moving: return "moving";
    case Point::ended: return "ended";
  }
  return "?";
}

int count_of(const Program& program, Point point, int rank) {
  std::size_t count = 0;
  for (const Epoch& epoch : program.epochs) {
    if (point == Point::init || point == Point::leave) ++count;
    if (point == Point::step) count += epoch.phases.size();
    for (const Phase& phase : epoch.phases) {
      if (point == Point::change) count += phase.changes.size();
      if (point == Point::join && std::ranges::any_of(phase.joins, [&](int set) {
            return has(epoch.sets[static_cast<std::size_t>(set)].ranks, rank);
          }))
        ++count;
    }
  }
  return static_cast<int>(count);
}

void prepare_faults(int rank) {
  if (!open_journal(rank)) return;
  FaultState& here = fault_state();
  note("begun " + std::to_string(::getpid()));
  if (std::ranges::none_of(here.faults, [&](const Fault& fault) { return fault.rank == rank; })) return;
  int orders[2], answers[2];
  if (::pipe2(orders, O_CLOEXEC) != 0 || ::pipe2(answers, O_CLOEXEC) != 0) wrong("no pipe for its faults");
  const pid_t self = ::getpid();
  const pid_t hand = ::fork();
  if (hand < 0) wrong("no process for its faults");
  if (hand == 0) {
    ::close(orders[1]);
    ::close(answers[0]);
    be_the_hand(orders[0], answers[1], self);
  }
  ::close(orders[0]);
  ::close(answers[1]);
  here.to_hand = orders[1];
  here.from_hand = answers[0];
}

void reached(Point point) { reached(point, fault_state().times[static_cast<int>(point)]++); }

bool has_fault_at(Point point, int number) {
  return std::ranges::any_of(fault_state().faults,
                             [&](const Fault& fault) { return is_due(fault, point, number); });
}

void reached(Point point, int number) {
  FaultState& here = fault_state();
  if (here.to_hand < 0) return;
  for (std::size_t i = 0; i < here.faults.size(); ++i) {
    const Fault& fault = here.faults[i];
    if (!is_due(fault, point, number)) continue;
    auto which = static_cast<std::uint8_t>(i);
    bool comes = ::write(here.to_hand, &which, 1) == 1;
    if (fault.action == "garbage") comes = comes && ::read(here.from_hand, &which, 1) == 1;
    if (!comes) wrong("its faults do not come any more");
  }
}

bool is_excused(const std::string& what, dabke_status got, const std::string& text) {
  FaultState& here = fault_state();
  if (here.journal < 0) return false;
  if (!is_loss(got)) return here.has_lost && follows_from_loss(got);
  here.has_lost = true;
  std::string line = std::string("lost ") + dabke_status_name(got) + " " + what + ": " + text;
  std::ranges::replace_if(
      line, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  note(line);
  return true;
}

bool expects_faults() { return fault_state().journal >= 0; }
bool has_lost() { return fault_state().has_lost; }

void note(const std::string& text) {
  if (fault_state().journal < 0) return;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const std::string line =
      std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(now).count()) + " " +
      std::to_string(fault_state().rank) + " " + text + "\n";
  if (::write(fault_state().journal, line.data(), line.size()) < 0) std::_Exit(4);
}

void wait_for_note(int rank, const std::string& text) {
  FaultState& here = fault_state();
  if (here.journal < 0) return;
  const std::string line = " " + std::to_string(rank) + " " + text + "\n";
  const auto deadline = std::chrono::steady_clock::now() + kNoteLimit;
  while (here.notes.find(line) == std::string::npos && std::chrono::steady_clock::now() < deadline) {
    char more[4096];
    const ssize_t count = ::pread(here.journal, more, sizeof more, static_cast<off_t>(here.notes.size()));
    if (count > 0) {
      here.notes.append(more, static_cast<std::size_t>(count));
    } else {
      std::this_thread::sleep_for(kNotePause);
    }
  }
}

void run_again(const Program& program, int rank) {
  const std::string place = setting("STORM_AGAIN");
  if (place.empty()) return;
  Ranks left = (1U << program.ranks) - 1;
  std::istringstream dead(setting("STORM_DEAD"));
  for (std::string word; std::getline(dead, word, ',');) left &= ~(1U << std::atoi(word.c_str()));
  if (!has(left, rank)) return;
  const std::vector<int> list = list_of(left);
  const auto number = std::ranges::find(list, rank) - list.begin();
  ::setenv("DABKE_RENDEZVOUS", place.c_str(), 1);
  ::setenv("DABKE_RANK", std::to_string(number).c_str(), 1);
  ::setenv("DABKE_SIZE", std::to_string(list.size()).c_str(), 1);
  // The others may start much later: they may wait in the failed job for a lost rank.
  ::setenv("DABKE_START_TIMEOUT_SECONDS", "30", 1);
  const Pending pending("the job after the one that failed");
  const auto must = [](const char* what, dabke_status got) {
    if (got != DABKE_OK)
      wrong(std::string("in the job after it: ") + what + " ended with " + dabke_status_name(got) + ": " +
            dabke_last_error());
  };
  must("dabke_init", dabke_init(nullptr));
  for (std::int64_t elements : {1, 1000, 100'000}) {
    std::vector<std::int32_t> x(static_cast<std::size_t>(elements), static_cast<std::int32_t>(number));
    DLTensor tensor{};
    tensor.data = x.data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = 1;
    tensor.dtype = {kDLInt, 32, 1};
    tensor.shape = &elements;
    dabke_options options = DABKE_OPTIONS_INIT;
    options.op = DABKE_SUM;
    must("dabke_allreduce", dabke_allreduce("again", &tensor, nullptr, &options));
    const auto want = static_cast<std::int32_t>(list.size() * (list.size() - 1) / 2);
    if (std::ranges::count(x, want) != elements) wrong("a sum of the job after the one that failed is wrong");
  }
  must("dabke_barrier", dabke_barrier(nullptr));
  must("dabke_shutdown", dabke_shutdown());
  note("again");
}

}  // namespace storm
