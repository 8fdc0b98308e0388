#include "train/workers/agreements.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/terminal.h"
#include "config/yaml.h"
#include "dist/compress/compressor.h"
#include "ops/gpu_ops.h"

namespace reigen {

TrainOptions shared_options(Job& job, const TrainOptions& mine) {
  if (job.alone()) return mine;
  const std::string text = job.broadcast(job.first() ? to_yaml(recorded_options(mine)) : "");
  return job.first() ? mine : options_for_worker(text, mine);
}

void check_same_data(Job& job, const std::string& fingerprint, const std::string& path) {
  if (job.alone()) return;
  std::string others;
  int rank = 0;
  for (const std::string& theirs : job.gather(fingerprint)) {
    if (job.first() && theirs != fingerprint) {
      const Member& member = job.membership()->control().members()[static_cast<size_t>(rank)];
      others += (others.empty() ? "" : ", ") + rank_and_host(rank, member.host);
    }
    ++rank;
  }
  others = job.broadcast(others);
  if (others.empty()) return;
  throw DataError(
      format("{} holds other data on {} than on the first worker (its manifest differs); copy the "
             "same prepared directory to every host, or let --send-data do it",
             path, others));
}

int workers_on_gpu(Job& job, const Device& device) {
  if (job.alone()) return 1;
  const std::string mine = device.gpu() != nullptr ? device.gpu()->facts().uuid : "";
  const Json all = Json::parse(job.broadcast(one_line(Json(job.gather(mine)))));
  const auto sharing = mine.empty() ? 1 : std::count(all.begin(), all.end(), Json(mine));
  if (sharing > 1 && job.first()) {
    log_warning(format("{} workers share a GPU: each has a part of its memory and time", sharing));
  }
  return static_cast<int>(sharing);
}

void share_scores(Job& job, EvaluationRecord& record) {
  if (job.alone()) return;
  const bool have = job.first() && record.bleu.has_value();
  double values[] = {have ? 1.0 : 0.0, have ? *record.bleu : 0, have ? *record.chrf : 0};
  job.sum(values);
  if (values[0] == 0) return;
  record.bleu = values[1];
  record.chrf = values[2];
}

void choose_bucket(Job& job, const WorkerOptions& options, size_t elements,
                   const std::vector<CurvePoint>& curve, Counters& counters) {
  if (job.alone()) return;
  if (options.bucket > 0) counters.bucket = asked_bucket(options);
  double known[] = {job.first() ? static_cast<double>(counters.bucket) : 0};
  job.sum(known);
  counters.bucket = static_cast<uint64_t>(known[0]);
  if (counters.bucket > 0) return;
  counters.bucket = measured_bucket(elements, curve);
}

bool check_same_weights(Job& job, TrainState& state, bool own_moments) {
  if (job.alone()) return true;
  auto print = [](const std::vector<float>& v) { return xxh3(v.data(), v.size() * sizeof(float)); };
  std::string mine = std::to_string(print(state.parameters));
  if (!own_moments) mine += format(" {}", print(state.second_moment));
  std::string apart;
  int rank = 0;
  for (const std::string& theirs : job.gather(mine)) {
    if (theirs != mine) apart += format("{}{}", apart.empty() ? "" : ", ", rank);
    ++rank;
  }
  apart = job.broadcast(apart);
  if (apart.empty()) return true;
  if (job.first()) {
    log_warning(
        format("step {}: the weights of ranks {} have drifted apart from the first worker's; all "
               "go on from its weights (are the machines of one kind?)",
               with_commas(state.counters.step), apart));
  }
  job.broadcast(state.parameters);
  if (own_moments) return false;
  job.broadcast(state.first_moment);
  job.broadcast(state.second_moment);
  return false;
}

std::string describe(Job& job, const Counters& counters) {
  if (job.alone()) return "";
  std::string text = format("{} workers over {}; compression {}", job.size(),
                            describe(job.membership()->interface()), counters.compress);
  if (has_warmup(parse_compress(counters.compress))) {
    text += format(" after step {}", with_commas(counters.compress_warmup));
  }
  return text + format(", {} at once", human_bytes(counters.bucket * sizeof(float)));
}

}  // namespace reigen
