#include "runtime/links/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "runtime/links/shm/waiting.h"

using namespace dabke;
using Catch::Contains;

namespace {
constexpr std::size_t kBytes = 1 << 20;
}

TEST_CASE("what one mapping of a segment writes another reads, also when the maker is gone") {
  ForkGuard guard;
  auto made = shm::Segment::create("test", kBytes, guard).take();
  auto taken = shm::Segment::adopt(Fd(::dup(made.descriptor())), kBytes, guard).take();
  CHECK(made.bytes().size() == kBytes);
  CHECK(made.bytes()[kBytes - 1] == std::byte{0});
  made.bytes()[kBytes - 1] = std::byte{42};
  made = shm::Segment();
  CHECK(taken.bytes()[kBytes - 1] == std::byte{42});
}

TEST_CASE("a segment is closed on exec, cannot shrink, and keeps its memory without its descriptor") {
  ForkGuard guard;
  auto made = shm::Segment::create("test", kBytes, guard).take();
  CHECK((::fcntl(made.descriptor(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(::ftruncate(made.descriptor(), 1) != 0);
  made.close_descriptor();
  CHECK(made.descriptor() == -1);
  made.bytes()[kBytes / 2] = std::byte{1};
}

TEST_CASE("a segment that does not fit is refused") {
  ForkGuard guard;
  const auto made = shm::Segment::create("test", kBytes, guard).take();
  const auto wrong_size = shm::Segment::adopt(Fd(::dup(made.descriptor())), kBytes + 1, guard);
  CHECK(wrong_size.status().code() == Code::mismatch);
  CHECK_THAT(wrong_size.status().message(), Contains("of 1048577 bytes, got one of 1048576"));

  Fd loose(::memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(loose.get(), kBytes) == 0);
  CHECK_THAT(shm::Segment::adopt(Fd(::dup(loose.get())), kBytes, guard).status().message(),
             Contains("can still shrink"));
  REQUIRE(::fcntl(loose.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  CHECK_THAT(shm::Segment::adopt(std::move(loose), kBytes, guard).status().message(),
             Contains("not reserved"));
  CHECK(shm::Segment::adopt(Fd(), kBytes, guard).status().code() == Code::transport);
}

TEST_CASE("memory that is not there is an error of create") {
  ForkGuard guard;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit small = before;
  small.rlim_cur = kBytes / 2;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const auto status = shm::Segment::create("test", kBytes, guard).status();
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(status.code() == Code::out_of_memory);
  CHECK_THAT(status.message(), Contains("1048576 bytes") && Contains("ulimit -f"));
  CHECK(shm::Segment::create("test", 0, guard).status().code() == Code::invalid_argument);
}

TEST_CASE("a wait ends by itself") {
  int looks = 0;
  for (shm::Waiting wait; wait.again();) ++looks;
  CHECK(looks == 1 + shm::WaitingHabit::kMostSpins + shm::Waiting::kYields);
}

TEST_CASE("who has learnt not to spin learns by one try that it pays again") {
  shm::WaitingHabit habit;
  constexpr int kNever = 1000;
  const auto came_while_spinning = [&](int after) {
    int looks = 0;
    for (shm::Waiting wait(habit, 0); wait.again();) {
      if (looks++ == after) return true;
    }
    return false;
  };
  for (int i = 0; i < 20; ++i) CHECK(!came_while_spinning(kNever));
  CHECK(!came_while_spinning(20));
  int came = 0;
  for (int i = 0; i < 200; ++i) came += came_while_spinning(20) ? 1 : 0;
  CHECK(came >= 200 - static_cast<int>(shm::WaitingHabit::kTryAgain));
  for (int i = 0; i < 20; ++i) CHECK(!came_while_spinning(kNever));
  CHECK(!came_while_spinning(20));
}
