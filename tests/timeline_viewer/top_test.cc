// dabke-timeline top, on real jobs while they run.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "runtime/base/threads/owned.h"
#include "tests/facts.h"
#include "tests/multiproc/launcher/terminal.h"
#include "tests/multiproc/launcher_run.h"
#include "tests/send_signal.h"
#include "tests/skip.h"

namespace dabke::test {
namespace {

using Catch::Contains;
using Json = nlohmann::json;

/// A job that runs steps until it is ended, and a home directory for its key.
struct SeenJob {
  explicit SeenJob(int ranks, const std::string& port = "0", const std::string& what = "slow-rank",
                   const std::string& network = "127.0.0.1/32")
      : run({"-np", std::to_string(ranks), "--top-port", port, RANK_WORKER, what},
            {.environment = {"HOME=" + home.path(), "DABKE_NETWORK_INTERFACE=" + network}}) {}
  Finished top(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "top");
    return LauncherRun(std::move(arguments),
                       {.program = DABKE_TIMELINE_TOOL, .environment = {"HOME=" + home.path()}})
        .finish();
  }
  /// The key files that rank 0 has written.
  std::vector<std::string> key_files() const {
    std::vector<std::string> files;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(home.path() + "/.dabke", none))
      files.push_back(entry.path());
    return files;
  }
  std::string address() const { return key_files().at(0).substr(key_files().at(0).find("look-") + 5); }

  TemporaryDirectory home;
  LauncherRun run;
};

/// A client that sends nothing.
Fd stranger_at(int port) {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return socket;
}

/// Finds the job by its numeric address, by a name, and with a copy of its key. The name may mean an IPv4
/// address only. Without a copy, the key is then found by the port.
void find_by_all_names(const SeenJob& job, bool is_v4) {
  const std::string address = job.address(), by_name = "localhost" + address.substr(address.rfind(':'));
  const std::string copy = job.home.path() + "/copy";
  std::filesystem::copy_file(job.key_files().at(0), copy);
  std::filesystem::permissions(copy,
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  for (const std::vector<std::string>& wanted : {std::vector{address},
                                                 {by_name},
                                                 {address, "--key-file", copy},
                                                 {is_v4 ? by_name : address, "--key-file", copy}}) {
    std::vector<std::string> arguments = wanted;
    arguments.push_back("--once");
    const Finished finished = job.top(arguments);
    CAPTURE(arguments, finished.error);
    CHECK(finished.exit_code == 0);
    CHECK_THAT(finished.out, Contains("2 of 2 ranks report"));
  }
}

}  // namespace

TEST_CASE("top tells of each rank its step, and who keeps the others waiting") {
  SeenJob job(3);
  REQUIRE(job.run.wait_for_output("it steps", 3));
  // On a busy machine, any rank may be late for a step. Over time it becomes clear which rank always is.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (bool is_clear = false; !is_clear;) {
    const Finished told = job.top({"--json", "--once"});
    CAPTURE(told.out, told.error);
    REQUIRE(told.exit_code == 0);
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    const Json figures = Json::parse(told.out);
    const Json& ranks = figures["ranks"];
    REQUIRE(ranks.size() == 3);
    for (const Json& rank : ranks) {
      CHECK(rank["step"] >= 10);
      CHECK(rank["step_us"] > 0);
      CHECK(rank["bytes"] >= 10 * 1'000'000);
    }
    CHECK(ranks[2]["step_us"] > 20'000);  // it sleeps for 30 ms in each step
    const double others = std::max(ranks[0]["caused_s"].get<double>(), ranks[1]["caused_s"].get<double>());
    is_clear = ranks[2]["caused_s"] > 2 * others;
  }

  const Finished table = job.top({job.address(), "--once"});
  CAPTURE(table.out, table.error);
  CHECK(table.exit_code == 0);
  const auto lines = lines_of(table.out);
  REQUIRE(lines.size() == 5);
  CHECK_THAT(lines[0], Contains("3 of 3 ranks report") && Contains("MB/s"));
  CHECK_THAT(lines[1], Contains("waits caused"));
}

TEST_CASE("the key's file is the user's alone and goes with the job, and whoever looks is told its end") {
  SeenJob job(2);
  REQUIRE(job.run.wait_for_output("it steps", 2));
  REQUIRE(job.key_files().size() == 1);
  CHECK((std::filesystem::status(job.key_files()[0]).permissions() & std::filesystem::perms::all) ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  LauncherRun viewer({"top", "--json"},
                     {.program = DABKE_TIMELINE_TOOL, .environment = {"HOME=" + job.home.path()}});
  REQUIRE(viewer.wait_for_output("\"ranks\"", 2));
  job.run.signal(SIGKILL);  // ends the job, and leaves the file
  CHECK(viewer.finish().exit_code == 0);
  // A process that is being ended closes its connections one after the other, the listener perhaps last.
  for (const pid_t pid : processes_with("HOME=" + job.home.path()))
    CHECK(is_gone_within(pid, std::chrono::seconds(60)));
  CHECK_THAT(job.top({}).error, Contains("found no running job") && Contains("--top-port 0"));
  CHECK(job.key_files().empty());
}

TEST_CASE("another key, another address and another program on the port are told as such") {
  SeenJob job(2);
  REQUIRE(job.run.wait_for_output("it steps", 2));
  const std::string file = job.key_files().at(0), wrong = job.home.path() + "/wrong";
  std::string text;
  {
    std::ifstream in(file);
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  char& digit = text[text.size() - 2];
  digit = digit == '0' ? '1' : '0';
  std::ofstream(wrong) << text;
  std::filesystem::permissions(wrong,
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const Finished refused = job.top({"--key-file", wrong});
  CHECK(refused.exit_code == 1);
  CHECK_THAT(refused.error, Contains("refused the connection") && Contains("belongs to another job"));
  const Finished elsewhere = job.top({"127.0.0.1:1"});
  CHECK(elsewhere.exit_code == 1);
  CHECK_THAT(elsewhere.error, Contains("no key for 127.0.0.1:1") && Contains("--key-file"));
  CHECK(job.top({"--once"}).exit_code == 0);
}

TEST_CASE("a job is found by the name of its host") {
  SeenJob job(2);
  REQUIRE(job.run.wait_for_output("it steps", 2));
  find_by_all_names(job, true);
}

TEST_CASE("a job at an address of IPv6 is found by that, and by the name of its host") {
  std::ifstream addresses("/proc/net/if_inet6");
  std::string line;
  bool has_loopback = false;
  while (std::getline(addresses, line)) has_loopback |= line.starts_with("00000000000000000000000000000001 ");
  if (!has_loopback) DABKE_SKIP("this host has no IPv6");
  SeenJob job(2, "0", "slow-rank", "::1/128");
  REQUIRE(job.run.wait_for_output("it steps", 2));
  CHECK(job.address().starts_with("[::1]:"));
  find_by_all_names(job, false);
}

TEST_CASE("what is no address, and a host that nobody knows, are told as such") {
  const TemporaryDirectory home;
  const auto error_of = [&](const std::string& address) {
    const Finished finished = LauncherRun({"top", address}, {.program = DABKE_TIMELINE_TOOL,
                                                             .environment = {"HOME=" + home.path()}})
                                  .finish();
    CHECK(finished.exit_code == 1);
    return finished.error;
  };
  for (const std::string wrong :
       {"node1", "node1:", ":4711", "node1:x", "node1:70000", "fd00::2:4711", "[]:1"})
    CHECK_THAT(error_of(wrong), Contains("'" + wrong + "' is not HOST:PORT"));
  CHECK_THAT(error_of("no-such-host.invalid:4711"), Contains("cannot find the host 'no-such-host.invalid'"));
}

TEST_CASE("strangers on the port keep nobody from looking, and learn nothing") {
  SeenJob job(2);
  REQUIRE(job.run.wait_for_output("it steps", 2));
  const int port = std::stoi(job.address().substr(job.address().find(':') + 1));
  std::vector<Fd> strangers;
  for (int i = 0; i < 40; ++i) strangers.push_back(stranger_at(port));
  const std::string noise(100'000, 'x');
  for (std::size_t i = 0; i < strangers.size(); i += 2)
    (void)!::send(strangers[i].get(), noise.data(), noise.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  CHECK(job.top({"--once"}).exit_code == 0);
  std::string got(1000, '\0');
  for (const Fd& stranger : strangers) {
    const ssize_t bytes = ::recv(stranger.get(), got.data(), got.size(), MSG_DONTWAIT);
    if (bytes > 0) CHECK(got.substr(0, static_cast<std::size_t>(bytes)).find("rank") == std::string::npos);
  }
}

TEST_CASE("a job at which nobody looks is silent") {
  SeenJob job(2, "0", "idle");
  const Finished finished = job.run.finish();
  CAPTURE(finished.error);
  CHECK(finished.exit_code == 0);
  CHECK_THAT(finished.out, Contains("[0]<stdout>:idle") && Contains("[1]<stdout>:idle"));
}

TEST_CASE("a port that is taken is an error of dabke_init that names it") {
  SeenJob job(2);
  REQUIRE(job.run.wait_for_output("it steps", 2));
  const std::string port = job.address().substr(job.address().find(':') + 1);
  const Finished second = LauncherRun({"-np", "2", "--top-port", port, RANK_WORKER, "sums"},
                                      {.environment = {"HOME=" + job.home.path()}})
                              .finish();
  CHECK(second.exit_code != 0);
  CHECK_THAT(second.error, Contains("DABKE_TOP=" + port) && Contains("choose another port"));
  const Finished wrong = LauncherRun({"-np", "2", "--top-port", "70000", RANK_WORKER, "sums"}).finish();
  CHECK(wrong.exit_code == 2);
  CHECK_THAT(wrong.error, Contains("70000") && Contains("a port"));
}

TEST_CASE("dabkerun --top keeps the table below the output, and takes it away at the end") {
  Terminal terminal;
  LauncherRun run({"-np", "3", "--top", RANK_WORKER, "slow-rank"},
                  {.environment = {"NO_COLOR=1"}, .terminal = terminal.path()});
  REQUIRE(terminal.wait_for("[2]<stdout>:it steps"));
  REQUIRE(terminal.wait_for("3 of 3 ranks report"));
  REQUIRE(terminal.wait_for("waits caused"));
  REQUIRE(
      terminal.wait_for("\x1b[5A\r\x1b[J3 of 3 ranks report"));  // five lines are drawn again in their place
  run.signal(SIGTERM);
  REQUIRE(terminal.wait_for("\x1b[5A\r\x1b[Jdabkerun: SIGTERM"));
  run.finish();
}

TEST_CASE("dabkerun --top of an elastic job names the slots outside, also while no rank sends figures") {
  Terminal terminal;
  LauncherRun run({"-H", "localhost:2", "-np", "2", "--min-np", "2", "--blacklist-cooldown-range", "100",
                   "100", "--top", EPOCH_WORKER, "1000000", "10000"},
                  {.environment = {"NO_COLOR=1"}, .terminal = terminal.path()});
  REQUIRE(terminal.wait_for("epoch 0: 0 ranks; starting: localhost:0, localhost:1"));
  const std::string slot = "slot localhost:1 is pid ";
  REQUIRE(terminal.wait_for(slot));
  REQUIRE(terminal.wait_for("2 of 2 ranks report"));
  REQUIRE(terminal.wait_for("epoch 1: 2 ranks"));
  send_signal(std::stoi(terminal.shown().substr(terminal.shown().find(slot) + slot.size())), SIGKILL);
  for (int i = 0; i < 2; ++i) {  // with other seconds the second time
    REQUIRE(terminal.wait_for("epoch 1: 1 rank, all between two epochs; left out: localhost:1 for "));
    terminal.forget();
  }
  run.signal(SIGTERM);
  run.finish();
}

TEST_CASE("dabkerun --top without a terminal says what to do instead") {
  const Finished refused = LauncherRun({"-np", "2", "--top", RANK_WORKER, "sums"}).finish();
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.error, Contains("--top-port 0") && Contains("dabke-timeline top"));
}

}  // namespace dabke::test
