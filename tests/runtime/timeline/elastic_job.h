// The records of an elastic job that a test writes itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "tests/runtime/timeline/job.h"

namespace dabke::test {

inline const timeline::EpochRoster kFirst{.members = {{-1, "a"}, {-1, "a"}, {-1, "b"}}};
inline const timeline::EpochRoster kSecond{.members = {{1, "a"}, {2, "b"}},
                                           .lost = {{0, "a", "was killed by SIGKILL (signal 9)"}}};
inline const timeline::EpochRoster kThird{.members = {{0, "a"}, {1, "b"}, {-1, "c"}}};
inline const std::string kLossText = "rank 0 (host a) was killed by SIGKILL (signal 9); 2 of 3 ranks go on";

/// A step of `x`, which is order `order`, from `at_us` on. It takes 100 us.
inline void train_step(Writer& writer, std::int64_t at_us, std::uint64_t order, std::uint64_t number) {
  writer.submit(at_us, "x");
  writer.run(at_us + 20, at_us + 80, order, {"x"});
  writer.mark(at_us + 100, number);
}

/// Three ranks train, rank 0 is killed in step 5, the others go on 3 ms later, and a rank joins.
inline void write_elastic_job(const std::string& base) {
  for (const Rank rank : {0, 1, 2}) {
    Writer writer(base, rank, 1, kFirst);
    if (rank == 0) writer.submit(0, "only of rank 0");
    for (std::uint64_t i = 0; i < 5; ++i) train_step(writer, static_cast<std::int64_t>(i) * 100, i + 1, i);
    if (rank == 0) {
      writer.submit(500, "x");
    } else {
      writer.fail(500, 1000 + rank, "x");
      writer.leave(1010);
    }
  }
  std::filesystem::resize_file(base + ".rank0", std::filesystem::file_size(base + ".rank0") - 8);
  for (const Rank rank : {0, 1}) {
    Writer writer(base, rank, 2, kSecond);
    if (rank == 1) writer.submit(3900, "state");
    for (std::uint64_t i = 0; i < 4; ++i)
      train_step(writer, static_cast<std::int64_t>(i) * 100 + 4000, i + 1, i + 4);
    writer.leave(4500);
  }
  for (const Rank rank : {0, 1, 2}) {
    Writer writer(base, rank, 3, kThird);
    for (std::uint64_t i = 0; i < 4; ++i)
      train_step(writer, static_cast<std::int64_t>(i) * 100 + 5000, i + 1, i + 8);
    writer.leave(5500);
  }
}

}  // namespace dabke::test
