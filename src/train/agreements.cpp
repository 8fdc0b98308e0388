#include "train/agreements.h"

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/terminal.h"
#include "config/yaml.h"

namespace reigen {
namespace {

constexpr std::array<size_t, 4> kBucketBytes = {1 << 19, 1 << 21, 1 << 23, 1 << 25};
constexpr double kNearly = 0.9;
constexpr size_t kLeastBucket = 1 << 16;  // elements
constexpr size_t kLeastBuckets = 16;

double rate_of(Crew& crew, std::vector<float>& data, size_t bytes) {
  const std::span<float> part(data.data(), bytes / sizeof(float));
  crew.check(crew.team()->group().all_reduce(part).wait());  // connections, buffers
  Stopwatch watch;
  crew.check(crew.team()->group().all_reduce(part).wait());
  return static_cast<double>(bytes) / std::max(watch.seconds(), 1e-6);
}

}  // namespace

TrainOptions shared_options(Crew& crew, const TrainOptions& mine) {
  if (crew.alone()) return mine;
  const std::string text = crew.broadcast(crew.first() ? to_yaml(recorded_options(mine)) : "");
  if (crew.first()) return mine;
  TrainOptions options;
  Schema schema("train", "");
  describe(schema, options);
  schema.parse_yaml(text, "the first worker's options");
  options.threads = mine.threads;
  options.memory = mine.memory;
  options.device = mine.device;
  options.workers = mine.workers;
  if (!mine.data.empty()) options.data = mine.data;
  return options;
}

void check_same_data(Crew& crew, const std::string& fingerprint, const std::string& path) {
  if (crew.alone()) return;
  std::string others;
  int rank = 0;
  for (const std::string& theirs : crew.gather(fingerprint)) {
    if (crew.first() && theirs != fingerprint) {
      const Member& member = crew.team()->control().members()[static_cast<size_t>(rank)];
      others += (others.empty() ? "" : ", ") + rank_and_host(rank, member.host);
    }
    ++rank;
  }
  others = crew.broadcast(others);
  if (others.empty()) return;
  throw DataError(
      format("{} holds other data on {} than on the first worker (its manifest differs); copy the "
             "same prepared directory to every host, or let --send-data do it",
             path, others));
}

void share_scores(Crew& crew, EvaluationRecord& record) {
  if (crew.alone()) return;
  const bool have = crew.first() && record.bleu.has_value();
  double values[] = {have ? 1.0 : 0.0, have ? *record.bleu : 0, have ? *record.chrf : 0};
  crew.sum(values);
  if (values[0] == 0) return;
  record.bleu = values[1];
  record.chrf = values[2];
}

void choose_bucket(Crew& crew, const WorkerOptions& options, size_t elements, Counters& counters) {
  if (crew.alone()) return;
  if (options.bucket > 0) counters.bucket = options.bucket / sizeof(float);
  double known[] = {crew.first() ? static_cast<double>(counters.bucket) : 0};
  crew.sum(known);
  counters.bucket = static_cast<uint64_t>(known[0]);
  if (counters.bucket > 0) return;
  std::vector<float> data(kBucketBytes.back() / sizeof(float));
  std::vector<double> rates;
  for (size_t bytes : kBucketBytes) rates.push_back(rate_of(crew, data, bytes));
  const double best = *std::max_element(rates.begin(), rates.end());
  size_t choice = 0;
  while (rates[choice] < kNearly * best) ++choice;
  const size_t bucket = std::min(kBucketBytes[choice] / sizeof(float),
                                 std::max(kLeastBucket, elements / kLeastBuckets));
  double chosen[] = {crew.first() ? static_cast<double>(bucket) : 0};
  crew.sum(chosen);
  counters.bucket = static_cast<uint64_t>(chosen[0]);
}

void check_same_weights(Crew& crew, TrainState& state, bool own_moments) {
  if (crew.alone()) return;
  auto print = [](const std::vector<float>& v) { return xxh3(v.data(), v.size() * sizeof(float)); };
  std::string mine = std::to_string(print(state.parameters));
  if (!own_moments) mine += format(" {}", print(state.second_moment));
  std::string apart;
  int rank = 0;
  for (const std::string& theirs : crew.gather(mine)) {
    if (theirs != mine) apart += format("{}{}", apart.empty() ? "" : ", ", rank);
    ++rank;
  }
  apart = crew.broadcast(apart);
  if (apart.empty()) return;
  if (crew.first()) {
    log_warning(
        format("step {}: the weights of ranks {} have drifted apart from the first worker's; all "
               "go on from its weights (are the machines of one kind?)",
               with_commas(state.counters.step), apart));
  }
  crew.broadcast(state.parameters);
  if (own_moments) return;
  crew.broadcast(state.first_moment);
  crew.broadcast(state.second_moment);
}

void choose_compression(const TrainOptions& options, Counters& counters) {
  constexpr int64_t kMostWarmup = 1000;
  constexpr uint64_t kOpenEnd = 500;
  const WorkerOptions& w = options.workers;
  const bool known = counters.step > 0 && counters.workers > 1;
  if (w.compress.method != CompressMethod::kAuto) counters.compress = text_of(w.compress);
  if (w.compress_warmup >= 0) {
    counters.compress_warmup = static_cast<uint64_t>(w.compress_warmup);
  } else if (!known) {
    counters.compress_warmup =
        options.max_steps > 0 ? static_cast<uint64_t>(std::min(kMostWarmup, options.max_steps / 10))
                              : kOpenEnd;
  }
}

std::string describe(Crew& crew, const Counters& counters) {
  if (crew.alone()) return "";
  std::string text = format("{} workers over {}; compression {}", crew.size(),
                            describe(crew.team()->interface()), counters.compress);
  if (has_warmup(parse_compress(counters.compress))) {
    text += format(" after step {}", with_commas(counters.compress_warmup));
  }
  return text + format(", {} at once", human_bytes(counters.bucket * sizeof(float)));
}

}  // namespace reigen
