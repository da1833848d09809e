#include "benchmarks/perf/options.h"

#include <catch2/catch.hpp>

#include "benchmarks/perf/measure/sizes.h"

namespace dabke::test {
using namespace perf;
namespace {

Result<Options> parse(std::vector<std::string> words) { return parse_options(words); }

std::string error_of(std::vector<std::string> words) {
  const auto options = parse(std::move(words));
  return options ? "none" : options.status().message();
}

}  // namespace

TEST_CASE("sizes are read with the units that nccl-tests takes") {
  const auto [text, bytes] = GENERATE(table<std::string, std::int64_t>({{"8", 8},
                                                                        {"1B", 1},
                                                                        {"64K", 65536},
                                                                        {"64k", 65536},
                                                                        {"64KB", 65536},
                                                                        {"64KiB", 65536},
                                                                        {"1.5M", 1572864},
                                                                        {"256M", 268435456},
                                                                        {"2G", 2147483648},
                                                                        {"1T", 1099511627776}}));
  const auto size = parse_size(text, "-b");
  CAPTURE(text);
  REQUIRE(size);
  CHECK(*size == bytes);
}

TEST_CASE("what is no size is refused with the option, the value and what is accepted") {
  const std::string text =
      GENERATE("", "x", "0", "-8", "3x", "8KiBs", "0.3", "2T", "nan", "inf", "1e99", "8 K");
  const auto size = parse_size(text, "-e");
  CAPTURE(text);
  REQUIRE(!size);
  CHECK_THAT(size.status().message(),
             Catch::StartsWith("-e is '" + text + "', but must be") && Catch::Contains("64K"));
}

TEST_CASE("sizes are shown in the largest unit of which they are whole") {
  CHECK(size_text(8) == "8 B");
  CHECK(size_text(65536) == "64 KiB");
  CHECK(size_text(65537) == "65537 B");
  CHECK(size_text(std::int64_t{3} << 30) == "3 GiB");
}

TEST_CASE("a sweep goes from the smallest size by the factor up to the largest, and not beyond") {
  CHECK(sizes_between(8, 128, 4) == std::vector<std::int64_t>{8, 32, 128});
  CHECK(sizes_between(8, 127, 4) == std::vector<std::int64_t>{8, 32});
  CHECK(sizes_between(8, 8, 2) == std::vector<std::int64_t>{8});
}

TEST_CASE("the options of nccl-tests mean what they mean there") {
  const auto options = parse({"allgather", "-np", "4", "-b", "1K", "-e", "1M", "-f", "2", "-n", "20", "-w",
                              "3", "-c", "0", "-d", "bfloat16"});
  REQUIRE(options);
  CHECK(options->mode == Mode::sweep);
  CHECK(options->kind == CollectiveKind::allgather);
  CHECK(options->ranks == 4);
  CHECK(options->begin == 1024);
  CHECK(options->end == 1 << 20);
  CHECK(options->factor == 2);
  CHECK(options->iterations == 20);
  CHECK(options->warm_up == 3);
  CHECK(!options->check);
  CHECK(options->dtype == DType::bf16);
  CHECK(options->in_place == std::vector<bool>{false});
}

TEST_CASE("an allreduce is measured in place, out of place, or both") {
  CHECK(parse({"allreduce"})->in_place == std::vector<bool>{true});
  CHECK(parse({"allreduce", "--out-of-place"})->in_place == std::vector<bool>{false});
  CHECK(parse({"allreduce", "--out-of-place", "--in-place"})->in_place == std::vector<bool>{true, false});
}

TEST_CASE("everybody is measured unless a list says otherwise, the reference first") {
  const auto all = parse({});
  CHECK(all->backends == built_backends());
  CHECK(all->backends.front() == "shm");
  CHECK(all->peers == std::vector<std::string>{"mpi", "gloo", "memcpy", "bound"});
  const auto some = parse({"--backends", "gloo", "--peers", "memcpy,gloo"});
  CHECK(some->backends == std::vector<std::string>{"gloo"});
  CHECK(some->peers == std::vector<std::string>{"memcpy", "gloo"});
  CHECK(parse({"--peers", "gloo", "--peers", "none"})->peers.empty());
}

TEST_CASE("without MPI neither Dabke's backend over it nor the peer is measured") {
  const auto options = parse({"--mpi", "none"});
  CHECK(!options->wants_backend("mpi"));
  CHECK(!options->wants_peer("mpi"));
}

TEST_CASE("each mode brings its own effort") {
  CHECK(parse({"--latency"})->end == 8);
  CHECK(parse({"--latency", "-b", "64"})->end == 64);
  CHECK(parse({"--idle"})->seconds > parse({})->seconds);
  CHECK(parse({"--idle", "--seconds", "1"})->seconds == 1);
  CHECK(parse({"--tensors", "10"})->warm_up > parse({})->warm_up);
  CHECK(parse({"--model", "resnet50"})->mode == Mode::steps);
}

TEST_CASE("a wrong command line is refused with the thing, the value and the remedy") {
  const auto [words, error] = GENERATE(table<std::vector<std::string>, std::string>({
      {{"allredu"}, "the collective is 'allredu', but must be one of allreduce, allgather"},
      {{"-np", "0"}, "-np is '0', but must be 1 to"},
      {{"-b", "1M", "-e", "1K"},
       "-e is 1024 bytes and -b is 1048576, but the largest size cannot be below the smallest"},
      {{"-f", "1"}, "-f is '1', but must be at least 2"},
      {{"-d", "f32"}, "-d is 'f32', but must be one of bool, int8"},
      {{"-o", "average"}, "-o is 'average', but must be one of sum, min, max, product"},
      {{"-o", "bitwise_or"}, "-o is 'bitwise_or', but must be one of sum, min, max, product"},
      {{"-d", "bool", "-o", "average"}, "sum, min, max, product, bitwise_and, bitwise_or, bitwise_xor"},
      {{"-n", "0"}, "--iterations is '0', but must be at least 1"},
      {{"-n", "many"}, "many"},
      {{"--runs", "0"}, "--runs is '0', but must be at least 1"},
      {{"-c", "2"}, "-c is '2', but must be one of 0, 1"},
      {{"--backends", "shm,nothing"}, "'nothing' is not there"},
      {{"--peers", "mpi,"}, "'' is not there"},
      {{"--backends", "none", "--peers", "none"}, "leave nobody to measure"},
      {{"--mpi", "lam"}, "--mpi is 'lam', but must be one of mpich, openmpi, all, none"},
      {{"--bind-to", "socket"}, "--bind-to is 'socket', but must be one of core, none"},
      {{"--memory", "huge"}, "--memory is 'huge', but must be one of private, dabke"},
      {{"--timeline"}, "name them with --model or --tensors"},
      {{"--raw", "--idle"}, "--raw calls the backends one collective at a time"},
      {{"--latency", "--idle"}, "choose one of them"},
      {{"alltoall", "--in-place"}, "leave the flag out"},
      {{"--frobnicate"}, "--frobnicate; dabke-perf --help shows"},
  }));
  CAPTURE(words);
  CHECK_THAT(error_of(words), Catch::Contains(error));
}

TEST_CASE("the help names every way to measure") {
  CHECK(parse({"--help"})->help);
  for (const char* const word : {"--raw", "--latency", "--idle", "--model", "--tensors", "--json", "busbw"})
    CHECK_THAT(help_text(), Catch::Contains(word));
}

}  // namespace dabke::test
