// Data-parallel training of a small neural network on handwritten digits.
//
//   dabkerun -np 4 ./digits
//
// Every rank has the whole model and takes its slice of every batch. While the backward pass goes on, the
// gradients of finished layers are already summed over the ranks. All ranks then take the same step, so their
// weights stay equal. The batch does not grow with the number of ranks, so any number of ranks
// learns the same.
//
//   dabkerun -np 4 --min-np 2 ./digits
//
// In an elastic job, training goes on when ranks are lost or come.
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <dabke/dabke.hpp>
#include <dabke/elastic.hpp>

#include "digits_data.h"
#include "digits_model.h"

namespace {

using digits::Images;
using digits::Model;
using digits::Score;
using digits::Slice;

constexpr float kMomentum = 0.9f;
constexpr std::size_t kStepsOfCommit = 10;

struct Flags {
  int epochs = 20;
  std::size_t batch_size = 64;
  float learning_rate = 0.05f;
  std::uint64_t seed = 1;
  std::string data;
  std::string save_weights;
};

std::string positive(const std::string& text) {
  try {
    if (const float value = std::stof(text); std::isfinite(value) && value > 0) return "";
  } catch (const std::exception&) {
  }
  return "Value " + text + " is not a float32 number above 0";
}

void add_flags(CLI::App& app, Flags& flags) {
  app.add_option("--epochs", flags.epochs, "How often every training image is seen")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--batch-size", flags.batch_size, "Images of one step, over all ranks together")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--learning-rate", flags.learning_rate, "Size of a step")
      ->check(CLI::Validator(positive, "POSITIVE"))
      ->capture_default_str();
  app.add_option("--seed", flags.seed, "Of the initial weights and of the order of the images")
      ->check(CLI::Range(0, 2'147'483'647))
      ->capture_default_str();
  app.add_option("--data", flags.data,
                 "The CSV file with the images; default: digits.csv beside this program");
  app.add_option(
      "--save-weights", flags.save_weights,
      "Rank 0 writes the trained weights here: float32 in the machine's byte order, layer by layer");
}

/// The build puts the data beside the program.
std::string find_data(const Flags& flags) {
  if (!flags.data.empty()) return flags.data;
  const auto path = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "digits.csv";
  if (std::filesystem::exists(path)) return path;
  throw std::runtime_error("there is no '" + path.string() + "'; name the file with --data");
}

/// The path of the running timeline; "" if there is none.
std::string timeline_path() {
  for (std::size_t i = 0; i < dabke_config_count(); ++i) {
    dabke_config_row row{};
    row.struct_size = sizeof(row);
    if (dabke_config_get(i, &row) != DABKE_OK || std::string_view(row.name) != "DABKE_TIMELINE") continue;
    const std::string path = row.value;
    return path.empty() || path == "DYNAMIC" ? "" : std::filesystem::absolute(path).string();
  }
  return "";
}

/// The place in the training, which is part of the state.
struct Progress {
  int epoch = 1;
  std::size_t first = 0;  // of the images of the epoch: the images before it are done
  Score all;              // of all ranks in this epoch
};

/// Trains one step on the images with the indices `batch`. This rank takes its slice of them, and returns the
/// score of the slice.
Score train_on_batch(Model& model, const Images& images, std::span<const std::size_t> batch,
                     const Flags& flags) {
  const Slice mine = digits::slice_of_rank({0, batch.size()}, dabke::rank(), dabke::size());
  const Images slice = images.pick(batch.subspan(mine.begin, mine.end - mine.begin));
  // Slices may differ in length and may be empty, so an average of the ranks' averages would be wrong.
  // Instead each image counts as one part of the whole batch, and the ranks' shares are summed.
  const float weight_of_image = 1.0f / static_cast<float>(batch.size());
  std::vector<dabke::Handle> pending;
  const Score score = model.differentiate(slice, weight_of_image, [&pending](digits::Layer& layer) {
    for (digits::Parameter* const parameter : {&layer.weights, &layer.biases}) {
      pending.push_back(
          dabke::allreduce_async(parameter->name + ".gradients", parameter->gradients, {.op = DABKE_SUM}));
    }
  });
  for (const dabke::Handle& handle : pending) handle.wait();
  model.step(flags.learning_rate, kMomentum);
  return score;
}

/// The sum of all ranks' scores.
Score sum_over_ranks(const std::string& name, const Score& mine) {
  std::array<double, 2> sums = {mine.loss, static_cast<double>(mine.correct)};
  dabke::allreduce(name, sums, {.op = DABKE_SUM});
  return {sums[0], static_cast<std::size_t>(sums[1])};
}

double percent(std::size_t part, std::size_t whole) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

void print(const Progress& done, const Images& images, const Flags& flags, double seconds) {
  const auto count = static_cast<double>(images.size());
  std::printf("epoch %2d/%d: loss %.4f, training accuracy %.1f %%, %.0f images/s\n", done.epoch, flags.epochs,
              done.all.loss / count, percent(done.all.correct, images.size()), count / seconds);
}

/// Trains from `progress` to the end of its epoch, with a commit now and then.
void train_epoch(Model& model, const Images& images, Progress& progress, const Flags& flags,
                 dabke::elastic::State& state) {
  const auto start = std::chrono::steady_clock::now();
  const auto order =
      digits::permutation(images.size(), flags.seed + static_cast<std::uint64_t>(progress.epoch));
  const std::size_t steps = (order.size() + flags.batch_size - 1) / flags.batch_size;
  Score mine;
  while (progress.first < order.size()) {
    const std::size_t step = progress.first / flags.batch_size;
    const auto batch =
        std::span(order).subspan(progress.first, std::min(flags.batch_size, order.size() - progress.first));
    const Score score = train_on_batch(model, images, batch, flags);
    mine.loss += score.loss;
    mine.correct += score.correct;
    progress.first += batch.size();
    dabke::mark_step(static_cast<std::uint64_t>(progress.epoch - 1) * steps + step);
    const bool is_last = progress.first >= order.size();
    if ((step + 1) % kStepsOfCommit != 0 && !is_last) continue;
    const Score sums = sum_over_ranks("training.score", std::exchange(mine, {}));
    progress.all.loss += sums.loss;
    progress.all.correct += sums.correct;
    if (!is_last) state.commit();
  }
  if (dabke::rank() == 0)
    print(progress, images, flags,
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  progress = {.epoch = progress.epoch + 1};
  state.commit();
}

Score evaluate(Model& model, const Images& images) {
  const Slice mine = digits::slice_of_rank({0, images.size()}, dabke::rank(), dabke::size());
  const auto all = digits::permutation(images.size(), 0);  // any order will do
  return sum_over_ranks(
      "held_out.score",
      model.evaluate(images.pick(std::span(all).subspan(mine.begin, mine.end - mine.begin))));
}

std::ofstream open_for_weights(const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot write the weights to '" + path + "'");
  return file;
}

void save(Model& model, std::ofstream& file, const std::string& path) {
  for (const digits::Parameter* const parameter : model.parameters()) {
    file.write(reinterpret_cast<const char*>(parameter->values.data()),
               static_cast<std::streamsize>(parameter->values.size() * sizeof(float)));
  }
  file.close();
  if (!file) throw std::runtime_error("cannot write the weights to '" + path + "'");
}

void run(const Flags& flags) {
  const digits::Split data = digits::split_and_standardise(digits::load(find_data(flags)));
  // The model is made before the session. After an error the session then ends first, with all operations
  // that still move the model's numbers.
  Model model({digits::kPixels, 128, 64, digits::kClasses});
  const dabke::Session session;
  const bool first = dabke::rank() == 0;
  std::ofstream weights;
  if (first && !flags.save_weights.empty()) weights = open_for_weights(flags.save_weights);
  if (first) {
    std::printf("ranks: %d, training images: %zu, held-out images: %zu, batch: %zu\n", dabke::size(),
                data.training.size(), data.held_out.size(), flags.batch_size);
  }

  // Different weights, until run() gives all ranks those of rank 0.
  model.initialise(flags.seed + static_cast<std::uint64_t>(dabke::rank()));
  Progress progress;
  dabke::elastic::State state;
  state.add(progress);
  for (digits::Parameter* const parameter : model.parameters()) {
    state.add(parameter->values);
    state.add(parameter->velocities);
  }
  Score score;
  const bool is_done = dabke::elastic::run(state, [&] {
    while (progress.epoch <= flags.epochs) train_epoch(model, data.training, progress, flags, state);
    score = evaluate(model, data.held_out);
  });
  if (!is_done) return;

  if (dabke::rank() == 0) {
    if (!flags.save_weights.empty() && !weights.is_open()) weights = open_for_weights(flags.save_weights);
    if (weights.is_open()) save(model, weights, flags.save_weights);
    if (const std::string path = timeline_path(); !path.empty()) std::printf("timeline: %s\n", path.c_str());
    std::printf("accuracy %.1f %%\n", percent(score.correct, data.held_out.size()));
  }
  // The session's destructor would call it, too, but could not report an error.
  if (const dabke_status status = dabke_shutdown(); status != DABKE_OK)
    throw dabke::Error(status, dabke_last_error());
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Trains a small neural network on handwritten digits, data-parallel. Start it with dabkerun.",
               "digits");
  add_flags(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // lines as they come, also into a pipe
  try {
    run(flags);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "digits: %s\n", error.what());
    return 1;
  }
  return 0;
}
