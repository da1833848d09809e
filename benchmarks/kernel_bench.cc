// The speed of the CPU kernels, beside memcpy.
//
//   build/benchmarks/kernel_bench                                everything
//   build/benchmarks/kernel_bench --benchmark_filter=reduce2     and all other options of Google Benchmark
//   build/benchmarks/kernel_bench --target=AVX2                  on this instruction set
//   build/benchmarks/kernel_bench --malloc                       operands 16 bytes off a page, as malloc
//                                                                places them
//
// Names are kernel/dtype/operand size. All runs are interleaved at random, so other work of the machine
// disturbs all of them equally. Bytes per second count everything that is read and written. Times are CPU
// time of the thread. At the end, a table compares 16-bit elements with float32: how many of them are reduced
// in the time of one float32. It has medians and quartiles over pairs of runs with the same number.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "runtime/kernels/kernels.h"

namespace dabke::perf {
namespace {

struct Size {
  const char* name;
  const char* fits;
  std::size_t bytes;  // size of an operand
  double target;      // elements of a 16-bit float reduced per second, relative to float32
};
constexpr Size kSizes[] = {{"256KB", "L2", 256UL << 10, 0.7}, {"64MB", "DRAM", 64UL << 20, 1.7}};
constexpr DType kBenchedDTypes[] = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i8};
constexpr std::size_t kOperands = 4;
/// The distance from a page at which malloc gives large blocks.
constexpr std::size_t kMallocOffset = 16;

/// The operands and a place for the result. All benchmarks use the same memory.
class Memory {
 public:
  Memory() {
    std::minstd_rand random;
    // Read as any floating dtype, each element is a number of about 1 or a hundredth.
    std::vector<std::uint16_t> page(kPage / 2);
    for (std::uint16_t& word : page) word = static_cast<std::uint16_t>(0x3c00 + random() % 256);
    for (auto& block : blocks_) {
      block.resize(kSizes[1].bytes + 2 * kPage);
      for (std::size_t i = 0; i < block.size(); i += kPage) std::memcpy(&block[i], page.data(), kPage);
    }
  }
  std::byte* at(std::size_t index) {
    std::byte* const block = blocks_[index].data();
    return block + (kPage - reinterpret_cast<std::uintptr_t>(block) % kPage) + offset_;
  }
  std::byte* result() { return at(kOperands); }
  void set_offset(std::size_t offset) { offset_ = offset; }

 private:
  static constexpr std::size_t kPage = 4096;
  std::array<std::vector<std::byte>, kOperands + 1> blocks_;
  std::size_t offset_ = 0;
};

using Kernel = void (*)(Memory&, DType, std::size_t elements);

template <ReduceOp kOp, std::size_t kCount, bool kIsAverage = false>
void reduce(Memory& memory, DType dtype, std::size_t elements) {
  const void* from[kCount];
  for (std::size_t k = 0; k < kCount; ++k) from[k] = memory.at(k);
  void* const into = memory.result();
  kernels::reduce_many(dtype, kOp, {&into, 1}, from, elements,
                       {1, kIsAverage ? static_cast<std::uint32_t>(kCount) : 1});
}

void scale(Memory& memory, DType dtype, std::size_t elements) {
  kernels::scale(dtype, memory.result(), memory.at(0), elements, 0.5);
}

/// 16-bit floats to float32, and float32 to float16 or bfloat16: `kInto`.
template <DType kInto>
void convert(Memory& memory, DType dtype, std::size_t elements) {
  kernels::convert(kInto, memory.result(), dtype, memory.at(0), elements);
}

void copy(Memory& memory, DType dtype, std::size_t elements) {
  std::memcpy(memory.result(), memory.at(0), elements * size_of(dtype));
}

struct Row {
  const char* name;
  Kernel kernel;
  std::size_t operands;  // read
  bool is_judged;        // the targets of kSizes apply
};
constexpr Row kRows[] = {
    {"reduce2", reduce<ReduceOp::sum, 2>, 2, true},
    {"reduce4", reduce<ReduceOp::sum, 4>, 4, true},
    {"average4", reduce<ReduceOp::sum, 4, true>, 4, false},
    {"max2", reduce<ReduceOp::max, 2>, 2, false},
    {"scale", scale, 1, false},
    {"memcpy", copy, 1, false},
};

class Benches {
 public:
  void add_all() {
    for (const Size& size : kSizes) {
      for (const DType dtype : kBenchedDTypes) {
        for (const Row& row : kRows) {
          if (row.kernel != copy || dtype == DType::f32) add(row, dtype, dtype, size);
        }
      }
      for (const DType half : {DType::f16, DType::bf16}) {
        add({"to_float32", convert<DType::f32>, 1, false}, half, DType::f32, size);
      }
      add({"to_float16", convert<DType::f16>, 1, false}, DType::f32, DType::f16, size);
      add({"to_bfloat16", convert<DType::bf16>, 1, false}, DType::f32, DType::bf16, size);
    }
  }
  Memory& memory() { return memory_; }

 private:
  /// In a conversion to wider elements, the operand is smaller by that factor, so that the result also fits.
  void add(const Row& row, DType dtype, DType into, const Size& size) {
    const std::size_t elements = size.bytes / std::max(size_of(dtype), size_of(into));
    const auto bytes = static_cast<double>(elements * (row.operands * size_of(dtype) + size_of(into)));
    const std::string name = fmt::format("{}/{}/{}", row.name, name_of(dtype), size.name);
    benchmark::RegisterBenchmark(name.c_str(), [=, this, kernel = row.kernel](benchmark::State& state) {
      kernel(memory_, dtype, elements);
      for (auto step : state) {
        static_cast<void>(step);
        kernel(memory_, dtype, elements);
        benchmark::ClobberMemory();
      }
      using benchmark::Counter;
      state.counters["elements/s"] =
          Counter(static_cast<double>(elements), Counter::kIsIterationInvariantRate, Counter::kIs1000);
      state.counters["bytes/s"] = Counter(bytes, Counter::kIsIterationInvariantRate, Counter::kIs1000);
    });
  }

  Memory memory_;
};

/// Prints the results of Google Benchmark, and keeps them for the table.
class Reporter : public benchmark::ConsoleReporter {
 public:
  Reporter() : ConsoleReporter(OO_Tabular) {}
  void ReportRuns(const std::vector<Run>& runs) override {
    std::vector<Run> shown;
    for (const Run& run : runs) {
      if (run.run_type == Run::RT_Iteration) {
        if (!run.error_occurred) speeds_[run.run_name.function_name].push_back(run.counters.at("elements/s"));
      } else if (run.aggregate_name == "median" || run.aggregate_name == "cv") {
        shown.push_back(run);
      }
    }
    if (!shown.empty()) ConsoleReporter::ReportRuns(shown);
  }

  void print_ratios() const {
    fmt::print(
        "\n| kernel | operands | dtype | elements/s beside float32: median | quartiles | target | reached |\n"
        "|---|---|---|---|---|---|---|\n");
    for (const Row& row : kRows) {
      for (const Size& size : kSizes) {
        for (const DType half : {DType::f16, DType::bf16}) print_ratio(row, size, half);
      }
    }
  }

 private:
  void print_ratio(const Row& row, const Size& size, DType half) const {
    const auto wide = speeds_.find(fmt::format("{}/float32/{}", row.name, size.name));
    const auto narrow = speeds_.find(fmt::format("{}/{}/{}", row.name, name_of(half), size.name));
    if (wide == speeds_.end() || narrow == speeds_.end()) return;
    std::vector<double> ratios;
    for (std::size_t i = 0; i < std::min(wide->second.size(), narrow->second.size()); ++i)
      ratios.push_back(narrow->second[i] / wide->second[i]);
    std::ranges::sort(ratios);
    const std::size_t last = ratios.size() - 1;
    const double median = ratios[last / 2];
    fmt::print("| {} | {} ({}) | {} | {:.2f} | {:.2f} to {:.2f} |", row.name, size.name, size.fits,
               name_of(half), median, ratios[last / 4], ratios[last - last / 4]);
    if (row.is_judged) {
      fmt::print(" {} | {} |\n", size.target, median >= size.target ? "yes" : "no");
    } else {
      fmt::print(" | |\n");
    }
  }

  std::map<std::string, std::vector<double>> speeds_;
};

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown CPU";
}

}  // namespace
}  // namespace dabke::perf

int main(int argc, char** argv) {
  // Our options come first, so that the command line can override them.
  std::vector<std::string> arguments = {argv[0], "--benchmark_enable_random_interleaving=true",
                                        "--benchmark_repetitions=15", "--benchmark_min_time=0.02"};
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  dabke::perf::Benches benches;
  std::string target;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = pointers[static_cast<std::size_t>(i)];
    if (argument == "--malloc") {
      benches.memory().set_offset(dabke::perf::kMallocOffset);
    } else if (argument.starts_with("--target=")) {
      dabke::kernels::use_target(std::string(argument.substr(9)));
    } else {
      fmt::print(stderr, "kernel_bench: unknown argument '{}'; there are --malloc and --target=\n", argument);
      return 2;
    }
  }
  benches.add_all();
  dabke::perf::Reporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  fmt::print("\n{}, {}\n", dabke::perf::cpu_model(), dabke::kernels::target_name());
  reporter.print_ratios();
  return 0;
}
