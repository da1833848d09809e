// One rank for the tests of messages whose other end dies. The argument is BEHAVIOUR-RANK:
//
//   receive-R     the others wait for a message from rank R, which never sends it
//   send-R        the others wait until rank R receives a message, which it never does
//   receive-any-R rank R waits for a message from any rank, and no rank sends one
//   answer-R      the same, but after SIGUSR1 the others send to rank R
//   large-R       rank R sends a large message to the next rank, which stops itself in the middle of it, or
//                 after it on a busy machine
//   half-R        the next rank waits for a message from rank R, which sends it after SIGUSR1
//
// TEST_STAGED=1: the rank may not read the memory of other processes.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "dabke/dabke.hpp"
#include "tests/forbid_remote_reads.h"

namespace {

void print(const std::string& line) {
  const std::string text = line + "\n";
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) std::abort();
}

/// Waits for the test to kill this rank.
[[noreturn]] void wait_for_the_end() {
  print("ready");
  while (true) pause();
}

sigset_t go_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  return signals;
}

/// Waits for SIGUSR1.
void wait_to_go() {
  print("ready");
  const sigset_t signals = go_signals();
  int signal = 0;
  sigwait(&signals, &signal);
}

int next_of(int rank) { return (rank + 1) % dabke::size(); }

std::vector<int> message_from(int rank) { return {rank, 10 * rank, 7}; }

/// A message around the ring of ranks. Every rank has completed this one before any rank dies.
void exchange() {
  const int from = (dabke::rank() + dabke::size() - 1) % dabke::size();
  std::vector<int> sent = message_from(dabke::rank()), received(sent.size());
  dabke::Handle send = dabke::send_async("first", sent, next_of(dabke::rank()));
  dabke::recv("first", received, from);
  send.wait();
  dabke::barrier();
  print(received == message_from(from) ? "the first message is right" : "the first message is wrong");
}

/// Waits for a handle that the test expects to fail.
int wait_for(dabke::Handle handle) {
  print("waiting");
  handle.wait();
  print("completed");
  return 0;
}

int receive(int from) {
  if (dabke::rank() == from) wait_for_the_end();
  std::vector<int> x(3);
  return wait_for(dabke::recv_async("x", x, from));
}

int send(int to) {
  if (dabke::rank() == to) wait_for_the_end();
  std::vector<int> x(3);
  return wait_for(dabke::send_async("x", x, to));
}

int receive_from_any(int receiver, bool is_answered) {
  std::vector<int> x(3);
  if (dabke::rank() == receiver) return wait_for(dabke::recv_async("x", x, DABKE_ANY_RANK));
  if (!is_answered) wait_for_the_end();
  wait_to_go();
  return wait_for(dabke::send_async("x", x, receiver));
}

/// Reads memory that another thread, or the kernel, writes meanwhile.
__attribute__((no_sanitize("thread"))) bool has_come(const volatile float* element) { return *element != -1; }

int send_large(int sender) {
  const int receiver = next_of(sender);
  if (dabke::rank() != sender && dabke::rank() != receiver) dabke::barrier();
  std::vector<float> x(HUGE_ELEMENTS, dabke::rank() == sender ? 1.0f : -1.0f);
  if (dabke::rank() == sender) return wait_for(dabke::send_async("x", x, receiver));
  dabke::Handle message = dabke::recv_async("x", x, sender);
  print("waiting");
  while (!has_come(x.data())) std::this_thread::yield();
  raise(SIGSTOP);  // stops all threads of the process
  try {
    message.wait();
    print(std::ranges::all_of(x, [](float element) { return element == 1; }) ? "it came whole"
                                                                             : "wrong data");
  } catch (const dabke::Error&) {
    print("the first element has come, and the last " + std::string(x.back() == -1 ? "has not" : "also has"));
    throw;
  }
  return 0;
}

int send_half(int sender) {
  const int receiver = next_of(sender);
  std::vector<int> x = dabke::rank() == sender ? message_from(sender) : std::vector<int>(3);
  if (dabke::rank() == receiver) {
    dabke::Handle message = dabke::recv_async("x", x, sender);
    print("waiting");
    message.wait();
    print(x == message_from(sender) ? "received all" : "wrong data");
  } else if (dabke::rank() == sender) {
    wait_to_go();
    dabke::send("x", x, receiver);
    print("sent");
    wait_for_the_end();
  }
  dabke::barrier();
  return 0;
}

int run(const std::string& what, int rank) {
  const dabke::Session session;
  exchange();
  if (what == "receive") return receive(rank);
  if (what == "send") return send(rank);
  if (what == "receive-any") return receive_from_any(rank, false);
  if (what == "answer") return receive_from_any(rank, true);
  if (what == "large") return send_large(rank);
  if (what == "half") return send_half(rank);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string text = argv[1];
  const auto dash = text.rfind('-');
  if (dash == std::string::npos) return 2;
  const sigset_t signals = go_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (std::getenv("TEST_STAGED") != nullptr && !dabke::test::forbid_remote_reads()) return 2;
  try {
    return run(text.substr(0, dash), std::atoi(text.c_str() + dash + 1));
  } catch (const dabke::Error& error) {
    print(std::string("error ") + dabke_status_name(error.status()) + ": " + error.what());
    return 3;
  }
}
