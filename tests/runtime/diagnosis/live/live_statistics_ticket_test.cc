#include "runtime/diagnosis/live/live_statistics_ticket.h"
#include "tests/temporary_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

using Catch::Contains;
using test::TemporaryDirectory;

diagnosis::LiveStatisticsTicket some_ticket() {
  diagnosis::LiveStatisticsTicket ticket{.address = "[fd00::2]:4711", .job = {}, .epoch = 3, .key = {}};
  ticket.job[0] = std::byte{0xab};
  ticket.key[31] = std::byte{0xcd};
  return ticket;
}

}  // namespace

TEST_CASE("a ticket comes out of its file as it went in, and the file is its owner's alone") {
  const TemporaryDirectory place;
  const std::string path = place / "new/look-x";
  const diagnosis::LiveStatisticsTicket ticket = some_ticket();
  REQUIRE(diagnosis::write_ticket(ticket, path).is_ok());
  REQUIRE(diagnosis::write_ticket(ticket, path).is_ok());  // of an earlier job with the same port
  struct stat file {
  }, folder{};
  ::stat(path.c_str(), &file);
  ::stat((place / "new").c_str(), &folder);
  CHECK((file.st_mode & 07777) == 0600);
  CHECK((folder.st_mode & 07777) == 0700);
  const auto read = diagnosis::read_ticket(path);
  REQUIRE(read.is_ok());
  CHECK(read->address == ticket.address);
  CHECK(read->job == ticket.job);
  CHECK(read->epoch == 3);
  CHECK(read->key == ticket.key);
}

TEST_CASE("a ticket that others could read, a link, and what is none are refused with the reason") {
  const TemporaryDirectory place;
  const std::string path = place / "look-x";
  REQUIRE(diagnosis::write_ticket(some_ticket(), path).is_ok());
  ::chmod(path.c_str(), 0640);
  CHECK_THAT(diagnosis::read_ticket(path).status().message(), Contains("mode 0600"));
  ::chmod(path.c_str(), 0600);
  std::filesystem::create_symlink(path, place / "link");
  CHECK_FALSE(diagnosis::read_ticket(place / "link").is_ok());
  CHECK_THAT(diagnosis::read_ticket(place / "none").status().message(), Contains("No such file"));
  const std::string text =
      GENERATE("", "dabke-look 1", "dabke-look 2\nx\n00 1 00\n", "dabke-look 1\nx\n00 1 00\n");
  std::ofstream(path) << text;
  CHECK_THAT(diagnosis::read_ticket(path).status().message(), Contains("is not a key file"));
}

TEST_CASE("the key to look is another than the job's, and another for each job") {
  JobKey one{}, other{};
  other[0] = std::byte{1};
  CHECK(diagnosis::look_key(one).take() != one);
  CHECK(diagnosis::look_key(one).take() != diagnosis::look_key(other).take());
  CHECK(diagnosis::look_key(one).take() == diagnosis::look_key(one).take());
}

}  // namespace dabke::test
