// Writes the logs of a synthetic run of any size, to measure how fast runs are opened:
// long_run DIRECTORY STEPS RANKS RANKS_PER_HOST SECONDS_PER_STEP.
//
// Records are written by the code and at the frequency of a real run: every step of rank 0, a span
// record per second for the other ranks, a sample per second for every host of 64 cores with a GPU
// for each of its ranks.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "base/format.h"
#include "base/terminal.h"
#include "observe/record/measurement_log.h"
#include "observe/record/records.h"

namespace {

using namespace reigen;

constexpr double kBegan = 1'700'000'000;
constexpr int kCores = 64;

struct Shape {
  std::string directory;
  uint64_t steps;
  int ranks;
  int per_host;
  double seconds;
};

class Lines {
 public:
  explicit Lines(const Shape& shape, int rank)
      : out_(MeasurementLog::path_of(shape.directory, rank), std::ios::binary) {}
  void add(const Record& record) { out_ << log_line(record); }

 private:
  std::ofstream out_;
};

Spans spans_of(double seconds, double noise) {
  return {{"input", 0.01 * seconds * noise},
          {"forward", 0.25 * seconds},
          {"loss", 0.05 * seconds},
          {"backward", 0.45 * seconds},
          {"communication", 0.20 * seconds * noise},
          {"optimizer", 0.03 * seconds},
          {"observe", 0.001 * seconds}};
}

double loss_at(uint64_t step) { return 1.5 + 7 * std::pow(static_cast<double>(step) + 1, -0.25); }

SampleRecord sample_of(const Shape& shape, int rank, uint64_t step, double time,
                       std::minstd_rand& chance) {
  std::uniform_real_distribution<double> noise(0.9, 1.1);
  SampleRecord sample;
  sample.step = step;
  sample.time = time;
  sample.seconds = 1;
  sample.host = format("node{:02}", rank / shape.per_host);
  for (int i = 0; i < kCores; ++i) sample.cores.push_back(12 * noise(chance));
  sample.memory_used = 90'000'000'000;
  sample.memory_total = 512'000'000'000;
  sample.interfaces = {{"lo", 1000, 1000, 0, false},
                       {"eth0", 9e8 * noise(chance), 9e8 * noise(chance), 3'125'000'000, true}};
  for (int i = 0; i < shape.per_host; ++i) {
    sample.gpus.push_back(
        {"NVIDIA H100", 90 * noise(chance), 60'000'000'000, 80'000'000'000, 600, 1700});
  }
  return sample;
}

void first_rank(const Shape& shape) {
  std::minstd_rand chance(1);
  std::uniform_real_distribution<double> noise(0.9, 1.1);
  Lines log(shape, 0);
  log.add(StartRecord{.time = kBegan,
                      .version = "bench",
                      .host = "node00",
                      .process = 1,
                      .threads = 8,
                      .workers = static_cast<uint64_t>(shape.ranks),
                      .device = "GPU"});
  double time = kBegan;
  double sampled = kBegan;
  for (uint64_t step = 1; step <= shape.steps; ++step) {
    const double took = shape.seconds * noise(chance);
    time += took;
    const double loss = loss_at(step) * noise(chance);
    log.add(StepRecord{.step = step,
                       .time = time,
                       .epoch = static_cast<double>(step) / 4000,
                       .loss = loss,
                       .nll = loss - 0.3,
                       .rate = 1e-3 * std::min(1.0, 4000.0 / static_cast<double>(step)),
                       .norm = noise(chance),
                       .source_tokens = 380'000,
                       .target_tokens = 400'000,
                       .pairs = 14'000,
                       .micro_batches = 4,
                       .seconds = took,
                       .spans = spans_of(took, noise(chance)),
                       .communication = CommunicationTimes{.busy = took / 2,
                                                           .hidden = took / 3,
                                                           .hidden_at_best = took / 2.5,
                                                           .sent = 240'000'000,
                                                           .inter_node_bytes = 30'000'000}});
    if (time - sampled >= 1) {
      log.add(sample_of(shape, 0, step, time, chance));
      sampled = time;
    }
    if (step % 3000 != 0) continue;
    EvaluationRecord evaluation{.step = step,
                                .time = time,
                                .seconds = 20,
                                .nll = loss_at(step),
                                .perplexity = std::exp(loss_at(step)),
                                .bleu = 30 - 25 * std::exp(-static_cast<double>(step) / 50'000),
                                .chrf = 50.0};
    evaluation.samples = {{"A man is sleeping .", "Ein Mann schläft .", "Ein Mann schläft ."}};
    log.add(evaluation);
    log.add(CheckpointRecord{.step = step,
                             .time = time,
                             .path = format("checkpoints/step-{:08}", step),
                             .bytes = 870'000'000,
                             .stall_seconds = 0.3,
                             .write_seconds = 4});
  }
  log.add(EndRecord{
      .step = shape.steps, .time = time, .reason = "max-steps", .seconds = time - kBegan});
}

void other_rank(const Shape& shape, int rank) {
  std::minstd_rand chance(static_cast<unsigned>(rank) + 1);
  std::uniform_real_distribution<double> noise(0.9, 1.1);
  Lines log(shape, rank);
  const auto window = static_cast<uint64_t>(std::max(1.0, std::ceil(1 / shape.seconds)));
  double time = kBegan;
  for (uint64_t step = window; step <= shape.steps; step += window) {
    const double took = shape.seconds * static_cast<double>(window) * noise(chance);
    time += took;
    log.add(SpansRecord{.step = step,
                        .time = time,
                        .steps = window,
                        .seconds = took,
                        .spans = spans_of(took, noise(chance)),
                        .communication = {.busy = took / 2,
                                          .hidden = took / 3,
                                          .hidden_at_best = took / 2.5,
                                          .sent = 240'000'000 * window,
                                          .inter_node_bytes = 30'000'000 * window}});
    if (rank % shape.per_host == 0) log.add(sample_of(shape, rank, step, time, chance));
  }
}

}  // namespace

int main(int count, char** given) {
  if (count != 6) {
    reigen::log_error("long_run DIRECTORY STEPS RANKS RANKS_PER_HOST SECONDS_PER_STEP");
    return 2;
  }
  const Shape shape = {given[1], std::strtoull(given[2], nullptr, 10), std::atoi(given[3]),
                       std::atoi(given[4]), std::atof(given[5])};
  std::filesystem::create_directories(shape.directory + "/measurements");
  std::ofstream(shape.directory + "/log.txt") << "2023-11-14 22:13:20  starting\n";
  first_rank(shape);
  for (int rank = 1; rank < shape.ranks; ++rank) other_rank(shape, rank);
}
