#include "launcher/reach/dialled_agents.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "launcher/agent_protocol/greeting.h"
#include "launcher/reach/agent_link.h"
#include "launcher/reach/remote_shell.h"
#include "runtime/base/clock.h"
#include "runtime/links/handshake_io.h"
#include "tests/facts.h"
#include "tests/patience.h"
#include "tests/temporary_directory.h"

namespace dabke::test {
using namespace launcher;
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

const std::string kJobId(32, '1'), kJobKey(64, '2');

/// A replacement of srun. Like srun, it passes its stdin to an agent of each host, once the file `after`
/// exists. Then it waits for the agents, or runs `then`, which may use `$agents`.
Words stand_in(const std::string& message, const Words& hosts, const std::string& after = "/",
               const std::string& then = "wait") {
  // A command in the background does not get this stdin.
  std::string script = fmt::format(
      "exec 3<&0; cat <&3 > '{0}' & while ! [ -s '{0}' ] || ! [ -e '{1}' ]; do sleep 0.01; done; ", message,
      after);
  for (const std::string& host : hosts)
    script += fmt::format("SLURMD_NODENAME={} '{}' --agent --dial < '{}' & agents=\"$agents $!\"; ", host,
                          DABKERUN, message);
  return {"sh", "-c", script + then};
}

std::unique_ptr<DialledAgents> open_at_loopback(Words command, bool is_started = true) {
  auto dialled = DialledAgents::open({.command = std::move(command),
                                      .hosts = {"h1", "h2"},
                                      .job_id = kJobId,
                                      .job_key = kJobKey,
                                      .listen_at = {*links::SocketAddress::of_host("127.0.0.1")},
                                      .timeout_s = 120});
  REQUIRE(dialled.is_ok());
  if (is_started) REQUIRE((*dialled)->start().is_ok());
  return dialled.take();
}

/// The address of the launcher in the message, once it is there.
std::optional<links::SocketAddress> address_in(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string message{std::istreambuf_iterator<char>(file), {}};
  const std::string host = "127.0.0.1:";
  const auto at = message.find(host);
  if (at == std::string::npos) return std::nullopt;
  const auto end = message.find_first_not_of("0123456789", at + host.size());
  if (end == std::string::npos) return std::nullopt;
  return *links::SocketAddress::parse(message.substr(at, end - at));
}

/// A client that is not an agent of the job, and the bytes that it receives.
struct Stranger {
  Fd socket;
  std::string learnt;
  std::optional<links::Handshake> handshake;  // of a client with another key than the job's

  void turn() {
    if (!socket) return;
    if (handshake) {
      if (!links::converse_over(socket.get(), *handshake).ended.is_ok() || handshake->done()) socket = Fd();
      return;
    }
    std::array<char, 4096> chunk;
    const ssize_t got = ::recv(socket.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (got > 0) learnt.append(chunk.data(), static_cast<std::size_t>(got));
    if (got == 0) socket = Fd();
  }
};

Stranger knock(const links::SocketAddress& address, int number) {
  Stranger stranger;
  stranger.socket = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(stranger.socket.get(), address.get(), address.length()) == 0);
  const std::string what[] = {"", "G", "GET / HTTP/1.0\r\n\r\n", std::string(100'000, '\0')};
  if (number % 5 == 4) {  // this one even has the id of the job
    const std::string other_key(64, '3');
    stranger.handshake =
        links::Handshake::connect(*dialling_self(kJobId, other_key, number_of_host(0)), kLauncherNumber)
            .take();
  } else {
    const std::string& text = what[number % 5];
    (void)!::send(stranger.socket.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  return stranger;
}

/// Collects arrivals until `enough` returns true.
template <class Enough>
std::vector<DialledAgents::Arrival> arrivals_of(DialledAgents& dialled, Enough enough) {
  std::vector<DialledAgents::Arrival> arrivals;
  const TimePoint limit = Clock::now() + 60s;
  while (!enough(arrivals) && Clock::now() < limit) {
    std::vector<pollfd> entries;
    dialled.add_poll_entries(entries);
    ::poll(entries.data(), entries.size(), 100);
    dialled.handle(entries);
    while (auto arrival = dialled.take_arrival()) arrivals.push_back(std::move(*arrival));
  }
  return arrivals;
}

}  // namespace

TEST_CASE("an agent of each host comes to the launcher, and begins the conversation there") {
  const test::TemporaryDirectory place;
  const auto dialled = open_at_loopback(stand_in(place / "message", {"h1", "h2"}));
  auto arrivals = arrivals_of(*dialled, [](const auto& so_far) { return so_far.size() == 2; });
  REQUIRE(arrivals.size() == 2);
  std::ranges::sort(arrivals, {}, &DialledAgents::Arrival::host);
  CHECK(arrivals[0].host == "h1");
  CHECK(arrivals[1].host == "h2");
  for (const auto& arrival : arrivals) {
    std::string said, before;
    std::optional<Greeting> greeting;
    for (char each = 0; !greeting && ::recv(arrival.socket.get(), &each, 1, 0) == 1;) {
      said += each;
      greeting = take_greeting(said, before);
    }
    REQUIRE(greeting);
    CHECK(greeting->version == agent_version());
    CHECK(before.empty());
  }
}

TEST_CASE(
    "one that does not know the key, or is none of the hosts, is no agent, and keeps none from coming") {
  const test::TemporaryDirectory place;
  const auto dialled = open_at_loopback(stand_in(place / "message", {"stranger", "h1"}));
  std::vector<Fd> knocks;
  bool has_knocked = false;
  const auto arrivals = arrivals_of(*dialled, [&](const auto& so_far) {
    const auto address = address_in(place / "message");
    if (!has_knocked && address) {
      has_knocked = true;
      for (const std::string& text :
           {std::string("GET / HTTP/1.0\r\n\r\n"), std::string(200, '\0'), std::string()}) {
        Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        REQUIRE(::connect(socket.get(), address->get(), address->length()) == 0);
        (void)!::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
        knocks.push_back(std::move(socket));
      }
    }
    return has_knocked && so_far.size() == 1 && !dialled->words().empty();
  });
  REQUIRE(arrivals.size() == 1);
  CHECK(arrivals[0].host == "h1");
  REQUIRE(!dialled->words().empty());
  CHECK(dialled->words()[0] ==
        "host stranger: SLURMD_NODENAME is 'stranger', which is not one of the job's hosts: h1, h2");
}

TEST_CASE(
    "500 strangers where agents dial back, some with a key of their own, learn nothing and delay none of "
    "them") {
  const test::TemporaryDirectory place;
  const std::string gate = place / "gate";
  const auto dialled = open_at_loopback(stand_in(place / "message", {"h1", "h2"}, gate));
  std::vector<Stranger> strangers;
  TimePoint opened, arrived;
  const auto arrivals = arrivals_of(*dialled, [&](const auto& so_far) {
    const auto address = address_in(place / "message");
    // Only a few at a time, so that the launcher accepts them meanwhile.
    for (int i = 0; address && strangers.size() < 500 && i < 50; ++i)
      strangers.push_back(knock(*address, static_cast<int>(strangers.size())));
    for (Stranger& stranger : strangers) stranger.turn();
    if (strangers.size() == 500 && opened == TimePoint()) {
      opened = Clock::now();
      std::ofstream{gate};
    }
    const bool is_anyone_talking =
        std::ranges::any_of(strangers, [](const Stranger& each) { return each.handshake && each.socket; });
    if (so_far.size() == 2 && arrived == TimePoint()) arrived = Clock::now();
    return so_far.size() == 2 && !is_anyone_talking;
  });
  REQUIRE(arrivals.size() == 2);
  CHECK(arrived - opened < test::kPatience);
  for (const auto& arrival : arrivals) CHECK((arrival.host == "h1" || arrival.host == "h2"));
  int refused = 0;
  for (Stranger& stranger : strangers) {
    stranger.turn();
    CHECK((!stranger.handshake || !stranger.handshake->done()));
    CHECK(stranger.learnt.find(kJobKey) == std::string::npos);
    CHECK(stranger.learnt.find(kJobId) == std::string::npos);
    refused += stranger.handshake && stranger.handshake->failed() ? 1 : 0;
  }
  CHECK(refused == 100);
}

TEST_CASE("an srun that is killed is the cause also where what it has started ends before it does") {
  const test::TemporaryDirectory place;
  const std::string gate = place / "gate";
  const auto dialled = open_at_loopback(stand_in(
      place / "message", {"h1", "h2"}, "/",
      fmt::format("while ! [ -e '{}' ]; do sleep 0.01; done; kill -9 $agents; wait $agents; kill -9 $$",
                  gate)));
  const auto arrivals = arrivals_of(*dialled, [](const auto& so_far) { return so_far.size() == 2; });
  REQUIRE(arrivals.size() == 2);
  std::ofstream{gate};
  for (const auto& arrival : arrivals) {
    std::array<char, 4096> chunk;
    while (::recv(arrival.socket.get(), chunk.data(), chunk.size(), 0) > 0) continue;
  }
  CHECK(dialled->how_it_was_killed() == "srun was killed by SIGKILL");
}

TEST_CASE("an agent that has an srun of its own comes again after its loss, and only if it is expected") {
  const auto dialled = open_at_loopback({}, false);
  const Words srun{"sh", "-c", fmt::format("SLURMD_NODENAME=h2 exec '{}' --agent --dial", DABKERUN)};
  for (int i = 0; i < 2; ++i) {
    AgentLink link("h2", {}, 120s);
    auto process = start_shell(srun);
    REQUIRE(process.is_ok());
    link.await(process.take(), dialled->expect("h2"));
    CHECK(!link.is_local());
    auto arrivals = arrivals_of(*dialled, [](const auto& so_far) { return so_far.size() == 1; });
    REQUIRE(arrivals.size() == 1);
    CHECK(arrivals[0].host == "h2");
    std::vector<pollfd> entries;
    dialled->add_poll_entries(entries);
    CHECK(entries.empty());  // nobody is expected, so it does not listen
  }
}

TEST_CASE("the srun of one agent outlives a lost node") {
  const Words words = srun_command_for("n2", "/bin/dabkerun", {"SLURM_HINT=x"});
  CHECK(Words(words.begin(), words.begin() + 5) == Words{"env", "-u", "SLURM_HINT", "srun", "--no-kill"});
  CHECK(Words(words.end() - 4, words.end()) == Words{"--nodelist=n2", "/bin/dabkerun", "--agent", "--dial"});
}

TEST_CASE("srun is kept from variables that would keep agents from cores") {
  const Words words =
      srun_command("/bin/dabkerun", {"n1", "n2"}, {"PATH=/bin", "SRUN_CPUS_PER_TASK=2", "SLURM_HINTS=x"});
  CHECK(Words(words.begin(), words.begin() + 4) == Words{"env", "-u", "SRUN_CPUS_PER_TASK", "srun"});
  CHECK(Words(words.end() - 4, words.end()) ==
        Words{"--nodelist=n1,n2", "/bin/dabkerun", "--agent", "--dial"});
  CHECK(srun_command("/bin/dabkerun", {"n1"}, {}).front() == "srun");
}

}  // namespace dabke::test
