#include "train/step/moment_shards.h"

#include <algorithm>

namespace reigen {

MomentShards::MomentShards(Job& job, TrainState& state)
    : job_(job), state_(state), own_(chunk_of(state.parameters.size(), job.rank(), job.size())) {
  reduce_to_own(state.first_moment);
  reduce_to_own(state.second_moment);
}

void MomentShards::reduce_to_own(std::vector<float>& moment) const {
  const std::span<const float> own = own_of(moment);
  moment = std::vector<float>(own.begin(), own.end());
}

void MomentShards::share_parameters() {
  job_.check(job_.membership()->group().all_gather(state_.parameters).wait());
}

// All messages are as long as the first chunk, which is the longest.
void MomentShards::collect() {
  const size_t elements = state_.parameters.size();
  const size_t most = chunk_of(elements, 0, job_.size()).size();
  for (std::vector<float>* moment : {&state_.first_moment, &state_.second_moment}) {
    std::vector<float> padded = *moment;
    padded.resize(most);
    const std::vector<std::vector<float>> chunks = job_.gather(std::span<const float>(padded));
    if (!job_.first()) continue;
    moment->resize(elements);
    for (int rank = 0; rank < job_.size(); ++rank) {
      const ChunkRange range = chunk_of(elements, rank, job_.size());
      std::copy_n(chunks[static_cast<size_t>(rank)].begin(), range.size(),
                  moment->begin() + static_cast<ptrdiff_t>(range.begin));
    }
  }
}

void MomentShards::release() {
  if (!job_.first()) return;
  reduce_to_own(state_.first_moment);
  reduce_to_own(state_.second_moment);
}

}  // namespace reigen
