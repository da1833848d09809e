// A rank for the launcher's tests. It does one simple or hostile thing, which its first argument names.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

int rank() { return std::atoi(std::getenv("DABKE_RANK")); }

void write_fully(int fd, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t wrote = ::write(fd, text.data() + at, text.size() - at);
    if (wrote < 0) std::_Exit(99);
    at += static_cast<std::size_t>(wrote);
  }
}

[[noreturn]] void sleep_for_ever() {
  for (;;) ::pause();
}

/// Writes the pid in one step, because the test reads the file while this process runs.
void leave_pid(const std::string& path) {
  std::ofstream(path + ".new") << ::getpid() << std::flush;
  std::filesystem::rename(path + ".new", path);
}

/// Prints lines of many lengths, in pieces that end anywhere.
void chatter(int lines) {
  std::string out;
  for (int i = 0; i < lines; ++i) {
    out += "rank " + std::to_string(rank()) + " line " + std::to_string(i) + " " +
           std::string(static_cast<std::size_t>(i * 37 % 301), static_cast<char>('a' + rank())) + "\n";
  }
  for (std::size_t at = 0, step = 1; at < out.size(); at += step, step = step * 7 % 5003) {
    const std::string piece = out.substr(at, step);
    write_fully(1, piece);
    if (at % 3 == 0) write_fully(2, "rank " + std::to_string(rank()) + " at " + std::to_string(at) + "\n");
  }
}

/// Prints until no process reads the output, which is certain once the output exceeds the size of any pipe or
/// terminal.
void flood() {
  ::fcntl(1, F_SETFL, O_NONBLOCK);
  pollfd entry{1, POLLOUT, 0};
  for (ssize_t written = 0; ::poll(&entry, 1, written < 100'000 ? -1 : 300) > 0;)
    written += std::max<ssize_t>(0, ::write(1, "y\ny\n", 4));
}

/// Starts a typical daemon: two forks, a session of its own, SIGTERM ignored, stdout kept open. The daemon
/// has its new parent when this function returns.
void start_daemon(const std::string& pid_file) {
  if (const pid_t middle = ::fork(); middle != 0) {
    ::waitpid(middle, nullptr, 0);
    return;
  }
  ::setsid();
  if (::fork() != 0) ::_exit(0);
  ::signal(SIGTERM, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  leave_pid(pid_file);
  sleep_for_ever();
}

void print_descriptors() {
  std::vector<int> open;
  for (int fd = 0; fd < 20'000; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) open.push_back(fd);
  }
  for (const int fd : open) std::printf("%d ", fd);
  std::printf("\n");
}

void print_signals() {
  sigset_t blocked;
  ::sigprocmask(SIG_SETMASK, nullptr, &blocked);
  struct sigaction action {};
  for (int signal = 1; signal < 32; ++signal) {
    ::sigaction(signal, nullptr, &action);
    if (::sigismember(&blocked, signal) != 0) std::printf("blocked %d\n", signal);
    if (action.sa_handler == SIG_IGN) std::printf("ignored %d\n", signal);
  }
  std::printf("done\n");
}

void on_signal(int) {
  write_fully(1, "caught\n");
  std::_Exit(0);
}

void print_window(int) {
  winsize size{};
  if (::ioctl(1, TIOCGWINSZ, &size) != 0) std::_Exit(99);
  write_fully(1, std::to_string(size.ws_row) + "x" + std::to_string(size.ws_col) + "\n");
}

void count_signal(int signal) { write_fully(1, "got " + std::to_string(signal) + "\n"); }

volatile sig_atomic_t is_told_to_end = 0;
void note_end(int) { is_told_to_end = 1; }

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const std::string argument = argc > 2 ? argv[2] : "";
  const int number = std::atoi(argument.c_str());
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (what == "exit") {  // <rank> <code>: the other ranks sleep
    if (rank() == number) return std::atoi(argv[3]);
    sleep_for_ever();
  }
  if (what == "raise") {  // <rank> <signal>: the other ranks sleep
    if (rank() == number) {
      ::signal(std::atoi(argv[3]), SIG_DFL);  // sanitizers and debuggers have handlers of their own
      ::raise(std::atoi(argv[3]));
    }
    sleep_for_ever();
  }
  if (what == "deaf") {
    // <rank> [directory]: ignores SIGTERM; rank <rank> fails once rank 1 ignores it, no rank if <rank> is -1
    ::signal(SIGTERM, SIG_IGN);
    ::signal(SIGINT, SIG_IGN);
    std::printf("ready\n");
    if (rank() == number) {
      while (!std::filesystem::exists(std::string(argv[3]) + "/1")) ::usleep(1000);
      return 4;
    }
    if (argc > 3) leave_pid(std::string(argv[3]) + "/" + std::to_string(rank()));
    sleep_for_ever();
  }
  if (what == "catch") {  // [directory]: writes its pid there
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, on_signal);
    if (!argument.empty()) leave_pid(argument + "/" + std::to_string(rank()));
    std::printf("ready\n");
    sleep_for_ever();
  }
  if (what == "count") {  // prints the signals that it gets, until SIGTERM
    for (const int signal : {SIGUSR1, SIGUSR2, SIGQUIT, SIGCONT, SIGWINCH}) {
      struct sigaction action {};
      action.sa_handler = count_signal;
      ::sigfillset(&action.sa_mask);
      action.sa_flags = SA_RESTART;
      ::sigaction(signal, &action, nullptr);
    }
    ::signal(SIGTERM, [](int) { std::_Exit(0); });
    std::printf("ready\n");
    sleep_for_ever();
  }
  if (what == "save") {  // <seconds>: the time from SIGTERM until it has saved
    ::signal(SIGTERM, note_end);
    std::printf("ready\n");
    while (is_told_to_end == 0) ::usleep(1000);
    std::printf("saving\n");
    for (unsigned left = static_cast<unsigned>(number); left > 0;) left = ::sleep(left);
    std::printf("saved\n");
    return 0;
  }
  if (what == "sleep") {  // <directory>: writes its pid there
    if (!argument.empty()) leave_pid(argument + "/" + std::to_string(rank()));
    std::printf("ready\n");
    sleep_for_ever();
  }
  if (what == "flood") {  // <directory>: writes its pid there when no process reads its output any more
    flood();
    leave_pid(argument + "/" + std::to_string(rank()));
    sleep_for_ever();
  }
  if (what == "hold") {  // <directory>: writes its pid there and begins a line of 1 MB
    leave_pid(argument + "/" + std::to_string(rank()));
    write_fully(1, std::string(1'000'000, 'x'));
    sleep_for_ever();
  }
  if (what == "spill") {  // <directory>: prints 1 MiB, writes its pid there and ends
    const std::string line = std::string(1023, 'x') + "\n";
    for (int i = 0; i < 1024; ++i) write_fully(1, line);
    leave_pid(argument + "/" + std::to_string(rank()));
    return 0;
  }
  if (what == "window") {
    // <directory>: prints the size of its terminal, at first and at SIGWINCH, until a file "go" exists
    struct sigaction action {};
    action.sa_handler = print_window;
    ::sigaction(SIGWINCH, &action, nullptr);
    ::raise(SIGWINCH);
    while (!std::filesystem::exists(argument + "/go")) ::usleep(1000);
    return 0;
  }
  if (what == "quiet") {  // <directory>: waits until a file "go" exists
    leave_pid(argument + "/" + std::to_string(rank()));
    while (!std::filesystem::exists(argument + "/go")) ::usleep(1000);
    return 0;
  }
  if (what == "daemon") {  // <directory> stay|leave
    start_daemon(argument + "/daemon." + std::to_string(rank()));
    while (!std::filesystem::exists(argument + "/daemon." + std::to_string(rank()))) ::usleep(1000);
    std::printf("ready\n");
    if (std::strcmp(argv[3], "leave") == 0) return 0;
    sleep_for_ever();
  }
  if (what == "chatter") chatter(number);
  if (what == "long") write_fully(1, std::string(static_cast<std::size_t>(number), 'x') + "\n");
  if (what == "descriptors") print_descriptors();
  if (what == "signals") print_signals();
  return 0;
}
