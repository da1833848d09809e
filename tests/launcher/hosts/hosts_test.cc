#include "launcher/hosts/hosts.h"

#include <fmt/format.h>
#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;

TEST_CASE("a host list gives names and slots, and slots are one when they are left out") {
  const auto hosts = parse_host_list("a:4, b.example.org:2,c,[::1]:3", "-H");
  REQUIRE(hosts.is_ok());
  CHECK(*hosts == std::vector<Host>{{"a", 4}, {"b.example.org", 2}, {"c", 1}, {"::1", 3}});
}

TEST_CASE("a bad host list is refused with the part that is wrong") {
  const auto text = GENERATE(as<std::string>(), "", "a:", "a:0", "a:-1", "a:x", "a:2,,b:1", ":3", "user@a:1",
                             "[::1", "a:2 3");
  CAPTURE(text);
  const auto hosts = parse_host_list(text, "-H");
  REQUIRE_FALSE(hosts.is_ok());
  CHECK_THAT(hosts.status().message(), Catch::StartsWith("-H " + text + ": '"));
  CHECK_THAT(hosts.status().message(), Catch::Contains("expected name:slots"));
}

TEST_CASE("a hostfile may have comments, empty lines and both spellings of slots") {
  const auto hosts = parse_hostfile("# nodes\n\nnode1 slots=4  # first\nnode2:2\r\n  node3\n", "hosts.txt");
  REQUIRE(hosts.is_ok());
  CHECK(*hosts == std::vector<Host>{{"node1", 4}, {"node2", 2}, {"node3", 1}});
}

TEST_CASE("a hostfile may be written as Open MPI and MPICH have it") {
  const auto hosts = parse_hostfile(
      "a slots = 2\nb\tslots=4\tmax_slots=4\nc slots=2 max-slots= 8\nd:3\n[fe80::1%eth0] "
      "slots=2\n[fd00::2]:2\n",
      "f");
  REQUIRE(hosts.is_ok());
  CHECK(*hosts ==
        std::vector<Host>{{"a", 2}, {"b", 4}, {"c", 2}, {"d", 3}, {"fe80::1%eth0", 2}, {"fd00::2", 2}});
}

TEST_CASE("a line of a hostfile that is not understood is told with what to write") {
  const auto error_of = [](const std::string& line) {
    const auto hosts = parse_hostfile("x\n" + line + "\n", "f");
    return hosts.is_ok() ? "no error" : hosts.status().message();
  };
  const std::string end = " is not a host: expected a name and its slots, as in 'localhost slots=4'";
  for (const char* const line : {"a slots=2 max_slots=1", "a max_slots=4", "a slots=2 slots=2",
                                 "a slots=2 gpus=1", "a slots", "a slots=", "a 4", "a slots=2 x", "= 2"}) {
    CHECK(error_of(line) == fmt::format("f line 2: '{}'{}", line, end));
  }
  CHECK(error_of("a slots=0") == "f line 2: 'a slots=0'" + end + "; leave out a host without ranks");
  CHECK(error_of("me@a slots=2") == "f line 2: 'me@a slots=2'" + end + "; give the user with --ssh-user");
  CHECK(error_of("fd00::1 slots=2") ==
        "f line 2: 'fd00::1 slots=2'" + end + "; put an IPv6 address in brackets, as in [fd00::1]");
}

TEST_CASE("an IPv6 address without brackets is refused with the brackets, as its last part might be slots") {
  CHECK_THAT(parse_host_list("fd00::1", "-H").status().message(),
             Catch::EndsWith("; put an IPv6 address in brackets, as in [fd00::1]"));
  CHECK_THAT(parse_host_list("a:2,fe80::1%eth0", "-H").status().message(),
             Catch::EndsWith("; put an IPv6 address in brackets, as in [fe80::1%eth0]"));
  CHECK_THAT(parse_host_list("a:2:3", "-H").status().message(),
             Catch::EndsWith("; put an IPv6 address in brackets, as in [fd00::1]:4"));
  CHECK_THAT(parse_host_list("a:0", "-H").status().message(),
             Catch::EndsWith("; leave out a host without ranks"));
  CHECK(*parse_host_list("[fe80::1%eth0],[fd00::1]:2", "-H") ==
        std::vector<Host>{{"fe80::1%eth0", 1}, {"fd00::1", 2}});
}

TEST_CASE("of very many hosts those are looked at that the ranks fill") {
  std::string file;
  for (int i = 0; i < 500'000; ++i) file += "node" + std::to_string(i % 400'000) + " slots=2\n";
  const auto hosts = parse_hostfile(file, "f");
  REQUIRE(hosts.is_ok());
  const auto merged = merge_hosts(*hosts);
  CHECK(merged.size() == 400'000);
  CHECK(first_hosts(merged, 9) == std::vector<Host>{{"node0", 4}, {"node1", 4}, {"node2", 4}});
  CHECK(first_hosts({{"a", 1}, {"b", 1}}, 3) == std::vector<Host>{{"a", 1}, {"b", 1}});
  CHECK(first_hosts({{"a", 1}, {"b", 1}}, 0).size() == 2);
}

TEST_CASE("a bad hostfile is refused with file and line") {
  CHECK(parse_hostfile("a slots=2\nb slots=x\n", "f").status().message() ==
        "f line 2: 'b slots=x' is not a host: expected a name and its slots, as in 'localhost slots=4'");
  CHECK_THAT(parse_hostfile("# none\n", "f").status().message(), Catch::StartsWith("f names no host"));
  CHECK_THAT(read_hostfile("/nowhere/f", "--hostfile").status().message(),
             Catch::Contains("No such file or directory"));
}

TEST_CASE("an empty hostfile, one with a byte order mark and one that cannot be read are told apart") {
  CHECK_THAT(read_hostfile("/dev/null", "--hostfile").status().message(),
             Catch::StartsWith("--hostfile /dev/null names no host"));
  CHECK_THAT(read_hostfile("/", "--hostfile").status().message(),
             Catch::EndsWith("cannot read it: Is a directory"));
  const auto hosts = parse_hostfile("\xEF\xBB\xBFlocalhost slots=2\n", "f");
  REQUIRE(hosts.is_ok());
  CHECK(*hosts == std::vector<Host>{{"localhost", 2}});
}

TEST_CASE("slots beyond all bounds do not overflow") {
  const std::vector<Host> many(2148, {"localhost", kMostSlots});
  CHECK(merge_hosts(many) == std::vector<Host>{{"localhost", kMostSlots}});
  CHECK(merge_this_host(many).hosts == std::vector<Host>{{"localhost", kMostSlots}});
}

TEST_CASE("this host is known by its names and addresses") {
  CHECK(is_this_host("localhost"));
  CHECK(is_this_host("127.0.0.1"));
  CHECK(is_this_host("127.0.0.2"));
  CHECK(is_this_host("::1"));
  CHECK(is_this_host(this_host_name()));
  CHECK_FALSE(is_this_host("192.0.2.1"));
}

TEST_CASE("the names of this host count as one host, whose place and name are those of the first") {
  const MergedHosts merged =
      merge_this_host({{"192.0.2.1", 3}, {"127.0.0.1", 3}, {"localhost", 2}, {"192.0.2.1", 1}});
  CHECK(merged.hosts == std::vector<Host>{{"192.0.2.1", 4}, {"127.0.0.1", 5}});
  CHECK(merged.here == "127.0.0.1");
  CHECK(merged.names == std::vector<std::string>{"127.0.0.1", "localhost"});
  CHECK(merge_this_host({{"127.0.0.1", 1}, {"127.0.0.1", 1}}).names.empty());
  CHECK(merge_this_host({{"192.0.2.1", 1}}).here.empty());
}

TEST_CASE("of very many hosts those that are this one are found at once") {
  std::vector<Host> many;
  for (int i = 0; i < 1000; ++i) many.push_back({"203.0.113." + std::to_string(i % 250), 1});
  many[997].name = "127.0.0.1";
  many[998].name = "localhost";
  CHECK(find_this_host(many) == std::vector<std::size_t>{997, 998});
}

TEST_CASE("a user before a host is refused, and the message says which flag names users") {
  CHECK_THAT(parse_host_list("me@a:2", "-H").status().message(),
             Catch::EndsWith("give the user with --ssh-user"));
  CHECK_THAT(parse_hostfile("me@a\n", "f").status().message(),
             Catch::EndsWith("give the user with --ssh-user"));
}

TEST_CASE("a host named twice has the slots of both") {
  CHECK(merge_hosts({{"a", 1}, {"b", 2}, {"a", 3}}) == std::vector<Host>{{"a", 4}, {"b", 2}});
}

}  // namespace dabke::test
