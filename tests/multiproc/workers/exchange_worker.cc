// A rank of a job that its program starts by itself, with files for the exchange. DABKE_RENDEZVOUS,
// file:DIRECTORY, names the directory; DABKE_RANK and DABKE_SIZE are the rank's numbers. Dabke itself sees
// none of the three variables.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <dabke/dabke.hpp>

namespace {

namespace fs = std::filesystem;

std::string taken(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) throw std::runtime_error(std::string(name) + " is not set");
  std::string text = value;
  unsetenv(name);
  return text;
}

std::string wait_for(const fs::path& path) {
  for (int i = 0; i < 6000; ++i) {
    if (std::ifstream file(path, std::ios::binary); file)
      return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  throw std::runtime_error(path.string() + " does not come");
}

int run() {
  dabke::Start start;
  start.rank = std::stoi(taken("DABKE_RANK"));
  start.size = std::stoi(taken("DABKE_SIZE"));
  const fs::path directory = taken("DABKE_RENDEZVOUS").substr(std::string("file:").size());
  int round = 0;
  start.exchange = [&](std::span<const std::byte> mine, std::span<std::byte> all) {
    const auto name = [&](int rank) {
      return directory / (std::to_string(round) + "." + std::to_string(rank));
    };
    std::ofstream(name(start.rank).string() + ".new", std::ios::binary)
        .write(reinterpret_cast<const char*>(mine.data()), static_cast<std::streamsize>(mine.size()));
    fs::rename(name(start.rank).string() + ".new", name(start.rank));
    auto* at = reinterpret_cast<char*>(all.data());
    for (int rank = 0; rank < start.size; ++rank) at += wait_for(name(rank)).copy(at, mine.size());
    ++round;
  };
  const dabke::Session session(start);
  std::vector<int> sum{dabke::rank() + 1};
  dabke::allreduce("sum", sum, {.op = DABKE_SUM});
  std::printf("%s\n", sum[0] == start.size * (start.size + 1) / 2 ? "the sum is right" : "wrong sum");
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::printf("error %s\n", error.what());
    return 3;
  }
}
