#include "runtime/base/threads/fork_guard.h"
#include "tests/child_process.h"

#include <fcntl.h>

#include <vector>

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

std::vector<int> open_files(std::size_t count) {
  std::vector<int> fds;
  for (std::size_t i = 0; i < count; ++i) fds.push_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return fds;
}

}  // namespace

TEST_CASE(
    "a forked child loses the guarded descriptors, all of them and no others, and the parent keeps them") {
  ForkGuard guard;
  const auto guarded = open_files(600);  // more than one chunk of the table
  const auto removed = open_files(3);
  for (const int fd : guarded) guard.add(fd);
  for (const int fd : removed) guard.add(fd);
  for (const int fd : removed) guard.remove(fd);

  const int status = status_in_child([&] {
    guard.close_all_in_child();
    int wrong = 0;
    for (const int fd : guarded) wrong += is_open(fd);
    for (const int fd : removed) wrong += !is_open(fd);
    return wrong == 0 ? 0 : 1;
  });
  CHECK(status == 0);
  int closed_here = 0;
  for (const int fd : guarded) {
    closed_here += !is_open(fd);
    ::close(fd);
  }
  CHECK(closed_here == 0);
  for (const int fd : removed) ::close(fd);
}

}  // namespace dabke::test
