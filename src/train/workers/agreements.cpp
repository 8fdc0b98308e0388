#include "train/workers/agreements.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/terminal.h"
#include "config/yaml.h"
#include "device/gpu.h"
#include "dist/compress/compressor.h"

namespace reigen {

TrainOptions shared_options(Job& job, const TrainOptions& mine) {
  if (job.alone()) return mine;
  const std::string text = job.broadcast(job.first() ? to_yaml(recorded_options(mine)) : "");
  return job.first() ? mine : options_for_worker(text, mine);
}

void check_same_data(Job& job, const std::string& fingerprint, const std::string& path) {
  if (job.alone()) return;
  std::string differing;
  int rank = 0;
  for (const std::string& theirs : job.gather(fingerprint)) {
    if (job.first() && theirs != fingerprint) {
      const Member& member = job.membership()->control().members()[static_cast<size_t>(rank)];
      differing += (differing.empty() ? "" : ", ") + rank_and_host(rank, member.host);
    }
    ++rank;
  }
  differing = job.broadcast(differing);
  if (differing.empty()) return;
  throw DataError(
      format("the dataset {} on {} differs from that on rank 0 (by its manifest); copy the same "
             "dataset to every host, or use --send-data",
             path, differing));
}

int workers_on_gpu(Job& job, const Device& device) {
  if (job.alone()) return 1;
  const std::string mine = device.gpu() != nullptr ? device.gpu()->facts().uuid : "";
  const Json all = Json::parse(job.broadcast(one_line(Json(job.gather(mine)))));
  const auto sharing = mine.empty() ? 1 : std::count(all.begin(), all.end(), Json(mine));
  if (sharing > 1 && job.first()) {
    log_warning(
        format("{} workers share a GPU: its memory and time are divided among them", sharing));
  }
  return static_cast<int>(sharing);
}

void share_scores(Job& job, EvaluationRecord& record) {
  if (job.alone() || !job.any(job.first() && record.bleu.has_value())) return;
  double scores[] = {record.bleu.value_or(0), record.chrf.value_or(0)};
  job.broadcast(std::as_writable_bytes(std::span(scores)));
  record.bleu = scores[0];
  record.chrf = scores[1];
  const std::string metrics = job.broadcast(one_line(Json(record.metrics)));
  if (!job.first()) Json::parse(metrics).get_to(record.metrics);
}

void choose_bucket(Job& job, const WorkerOptions& options, size_t elements,
                   const std::vector<CurvePoint>& curve, Choices& choices) {
  if (job.alone()) return;
  if (options.bucket > 0) choices.bucket = requested_bucket(options);
  choices.bucket = job.broadcast(choices.bucket);
  if (choices.bucket > 0) return;
  choices.bucket = bucket_for_link(elements, curve);
}

bool check_same_weights(Job& job, TrainState& state, bool own_moments) {
  if (job.alone()) return true;
  auto print = [](const std::vector<float>& v) { return xxh3(v.data(), v.size() * sizeof(float)); };
  std::string mine = std::to_string(print(state.parameters));
  if (!own_moments) mine += format(" {}", print(state.second_moment));
  std::string differing;
  int rank = 0;
  for (const std::string& theirs : job.gather(mine)) {
    if (theirs != mine) differing += format("{}{}", differing.empty() ? "" : ", ", rank);
    ++rank;
  }
  differing = job.broadcast(differing);
  if (differing.empty()) return true;
  if (job.first()) {
    log_warning(format(
        "step {}: the weights of ranks {} have drifted from rank 0's; all ranks continue with rank "
        "0's weights (processors of different kinds may round differently)",
        with_commas(state.counters.step), differing));
  }
  job.broadcast(state.parameters);
  if (!state.average.empty()) job.broadcast(state.average);
  if (own_moments) return false;
  job.broadcast(state.first_moment);
  job.broadcast(state.second_moment);
  return false;
}

std::string describe(Job& job, const Choices& choices) {
  if (job.alone()) return "";
  std::string text = format("{} workers over {}; compression {}", job.size(),
                            describe(job.membership()->interface()), choices.compress);
  if (has_warmup(parse_compress(choices.compress))) {
    text += format(" after step {}", with_commas(choices.compress_warmup));
  }
  return text + format(", buckets of {}", human_bytes(choices.bucket * sizeof(float)));
}

}  // namespace reigen
