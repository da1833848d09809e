#include "launcher/reach/remote_shell.h"

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;
namespace {

using Catch::Contains;
using Catch::StartsWith;
using Words = std::vector<std::string>;

std::string why(int exit_code, const Words& words, const std::string& program = "") {
  return why_no_agent({.program = program, .dabkerun = "/opt/dabkerun"}, "node7", exit_code, words);
}

}  // namespace

TEST_CASE("ssh asks nothing, forwards nothing, and is given one command that says nothing of the job") {
  CHECK(remote_command({.dabkerun = "/opt/my dabke/dabkerun"}, "node7") ==
        Words{"ssh", "-T", "-o", "BatchMode=yes", "-o", "ClearAllForwardings=yes", "-o", "ControlMaster=no",
              "-o", "ControlPath=none", "-o", "RemoteCommand=none", "--", "node7",
              "exec '/opt/my dabke/dabkerun' --agent"});
}

TEST_CASE("port, key, user and further arguments go to ssh before the host") {
  const Words words = remote_command({.port = "2222",
                                      .identity_file = "/k",
                                      .user = "me",
                                      .arguments = " -o  ConnectTimeout=5 ",
                                      .dabkerun = "d"},
                                     "-node");
  CHECK(Words(words.end() - 11, words.end()) == Words{"-p", "2222", "-i", "/k", "-l", "me", "-o",
                                                      "ConnectTimeout=5", "--", "-node", "exec d --agent"});
}

TEST_CASE("further arguments and what stands in for ssh are quoted as in a shell") {
  const Words words = remote_command({.arguments = "-o 'ProxyCommand=nc -x p %h'", .dabkerun = "d"}, "n");
  CHECK(Words(words.end() - 5, words.end()) ==
        Words{"-o", "ProxyCommand=nc -x p %h", "--", "n", "exec d --agent"});
  CHECK(remote_command({.program = "'/my shell' -x", .dabkerun = "d"}, "n").front() == "/my shell");
}

TEST_CASE("what stands in for ssh is called with its own words, the host and the command") {
  CHECK(remote_command({.program = "kubectl  exec -i", .port = "1", .dabkerun = "d"}, "pod") ==
        Words{"kubectl", "exec", "-i", "pod", "exec d --agent"});
}

TEST_CASE("what ssh says is explained, with what to do") {
  CHECK_THAT(why(255, {"ssh: Could not resolve hostname node7: Name or service not known"}),
             StartsWith("host node7: unknown host name: ") && Contains("address"));
  CHECK_THAT(why(255, {"me@node7: Permission denied (publickey)."}), Contains("--ssh-identity-file"));
  CHECK_THAT(why(255, {"No ED25519 host key is known for node7 and you have requested strict checking.",
                       "Host key verification failed."}),
             StartsWith("host node7: unknown host key: "));
  CHECK_THAT(why(255, {"@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @",
                       "Host key verification failed."}),
             Contains("ssh-keygen -R"));
  CHECK_THAT(why(255, {"ssh: connect to host node7 port 22: Connection refused"}), Contains("--ssh-port"));
  CHECK_THAT(why(255, {"ssh: connect to host node7 port 22: No route to host"}),
             Contains("cannot be reached"));
  CHECK_THAT(why(255, {"ssh: connect to host node7 port 22: Connection timed out"}), Contains("firewalls"));
}

TEST_CASE("a program that is not there is told from a connection that is not") {
  for (const int exit_code : {126, 127})
    CHECK_THAT(why(exit_code, {"Permission denied"}),
               StartsWith("host node7: cannot run /opt/dabkerun there: "));
}

TEST_CASE("what nobody can explain is told with the program and its exit code") {
  CHECK(why(255, {"kex_exchange_identification: banner line contains invalid characters"}) ==
        "host node7: no agent has started, and ssh exited with status code 255");
  CHECK(why(3, {"Connection refused"}, "kubectl exec") ==
        "host node7: no agent has started, and kubectl exec exited with status code 3");
}

}  // namespace dabke::test
