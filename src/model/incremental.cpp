#include "model/incremental.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/format.h"
#include "device/gpu.h"
#include "model/stack.h"
#include "ops/matmul.h"

namespace reigen {

IncrementalDecoder::IncrementalDecoder(const Device& device, Transformer& model,
                                       const Weights& weights)
    : device_(device),
      model_(model),
      weights_(weights),
      caches_(device.kind()),
      arena_(device.kind()) {
  if (model.output_bias_ != kNone) make_output_bias();
}

void IncrementalDecoder::make_output_bias() {
  constexpr float kNever = -1e9F;
  const ParameterSlice& slice = model_.layout().slices()[model_.output_bias_];
  // Read by eights on a GPU.
  std::vector<float> bias((slice.size() + 7) / 8 * 8);
  const float* master = weights_.master + slice.offset;
  Gpu* gpu = device_.gpu();
  if (gpu != nullptr) {
    gpu->download(bias.data(), master, slice.size() * sizeof(float));
  } else {
    std::copy_n(master, slice.size(), bias.begin());
  }
  if (model_.start_piece_ < slice.size()) bias[model_.start_piece_] = kNever;
  const size_t bytes = bias.size() * sizeof(float);
  output_bias_ = DeviceBuffer(device_.kind(), bytes, "the output bias");
  if (gpu != nullptr) {
    gpu->upload(output_bias_.data(), bias.data(), bytes);
  } else {
    std::copy(bias.begin(), bias.end(), output_bias_.as<float>());
  }
}

void IncrementalDecoder::check_start(std::span<const uint32_t> offsets, int64_t most_steps) const {
  const int64_t limit = model_.options().max_length;
  if (most_steps > limit) {
    throw ConfigError(format("cannot decode {} tokens; the model allows {} (model.max-length)",
                             most_steps, limit));
  }
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    const uint32_t length = offsets[s + 1] - offsets[s];
    if (length == 0 || length > limit) {
      throw DataError(
          format("a source of {} tokens cannot be translated; the model accepts 1 to {}, end of "
                 "sentence included (model.max-length)",
                 length, limit));
    }
  }
}

// One block, reused while it is large enough, so that its pages stay mapped.
void IncrementalDecoder::make_caches(int64_t source_tokens, int64_t target_rows) {
  const int64_t d = model_.options().width;
  const int64_t layers = model_.options().decoder_layers;
  const int64_t rows = layers * (3 * target_rows + 2 * source_tokens);
  const size_t bytes = static_cast<size_t>(rows * d) * size_of(weights_.type);
  if (caches_.capacity() < bytes) caches_ = Arena(device_.kind());
  caches_.reset();
  Tensor all = caches_.matrix(rows, d, weights_.type);
  auto take = [&](int64_t count, int64_t cols) {
    Tensor cache{all.data, all.dtype, count, cols, cols};
    all = all.rows_from(count * cols / d, all.rows - count * cols / d);
    return cache;
  };
  self_caches_.clear();
  cross_caches_.clear();
  for (int64_t l = 0; l < layers; ++l) {
    self_caches_.push_back(take(target_rows, 3 * d));
    cross_caches_.push_back(take(source_tokens, 2 * d));
  }
}

void IncrementalDecoder::start(std::span<const uint32_t> ids, std::span<const uint32_t> offsets,
                               int64_t most_rows, int64_t most_steps) {
  check_start(offsets, most_steps);
  const auto index =
      index_batch(device_, {.source = {ids, offsets, {}}}, model_.index_shape(weights_.type));
  make_caches(index->source.rows, most_rows * most_steps);
  arena_.reset();
  Pass with = pass();
  with.batch = index.get();
  use_batch(device_, *index);
  Tensor memory = model_.encode(with);
  model_.decoder_->project_memory(with, memory, cross_caches_);

  const auto sentences = offsets.size() - 1;
  ancestors_ = {{}, std::vector<uint32_t>(sentences), std::vector<uint32_t>(sentences)};
  sources_.picks.resize(ids.size());
  std::iota(sources_.picks.begin(), sources_.picks.end(), 0u);
  sources_.begin.assign(offsets.begin(), offsets.end() - 1);
  sources_.count.resize(sentences);
  for (size_t s = 0; s < sentences; ++s) sources_.count[s] = offsets[s + 1] - offsets[s];
  steps_ = 0;
  cached_rows_ = 0;
}

// Copies each row's ancestor list from its parent and appends the row itself.
void IncrementalDecoder::follow(std::span<const uint32_t> parents) {
  const auto before = static_cast<size_t>(steps_);
  scratch_.resize(parents.size() * (before + 1));
  scratch_begin_.resize(parents.size());
  scratch_count_.resize(parents.size());
  for (size_t r = 0; r < parents.size(); ++r) {
    uint32_t* own = scratch_.data() + r * (before + 1);
    std::copy_n(ancestors_.picks.begin() + static_cast<ptrdiff_t>(parents[r] * before), before,
                own);
    own[before] = static_cast<uint32_t>(cached_rows_) + static_cast<uint32_t>(r);
    scratch_begin_[r] = sources_.begin[parents[r]];
    scratch_count_[r] = sources_.count[parents[r]];
  }
  std::swap(ancestors_.picks, scratch_);
  std::swap(sources_.begin, scratch_begin_);
  std::swap(sources_.count, scratch_count_);
  ancestors_.begin.resize(parents.size());
  for (size_t r = 0; r < parents.size(); ++r) {
    ancestors_.begin[r] = static_cast<uint32_t>(r * (before + 1));
  }
  ancestors_.count.assign(parents.size(), static_cast<uint32_t>(before + 1));
}

Tensor IncrementalDecoder::embed(const Pass& with, std::span<const uint32_t> tokens,
                                 std::span<const uint32_t> places) const {
  const int64_t width = model_.options().width;
  Tensor out = with.residual(static_cast<int64_t>(tokens.size()), width);
  embed_forward(device_, {tokens, places, std::sqrt(static_cast<float>(width)), {}},
                with.weight(model_.target_table_), model_.positions(with), out);
  return out;
}

Tensor IncrementalDecoder::step(std::span<const uint32_t> parents,
                                std::span<const uint32_t> tokens) {
  const auto rows = static_cast<int64_t>(parents.size());
  if (steps_ >= model_.options().max_length || cached_rows_ + rows > self_caches_[0].rows) {
    throw std::logic_error(
        format("step {} with {} rows exceeds the cache that start() allocated", steps_ + 1, rows));
  }
  follow(parents);
  arena_.reset();
  const Pass with = pass();
  places_.assign(tokens.size(), static_cast<uint32_t>(steps_));
  const StagedLists lists(device_,
                          {tokens, places_, ancestors_.picks, ancestors_.begin, ancestors_.count,
                           sources_.picks, sources_.begin, sources_.count});
  const DecodeStep at{self_caches_,
                      cross_caches_,
                      cached_rows_,
                      {lists[2], lists[3], lists[4]},
                      {lists[5], lists[6], lists[7]}};
  Tensor hidden = model_.decoder_->step(with, embed(with, lists[0], lists[1]), at);
  const Tensor table = with.weight(model_.projection_);
  // Logits are fp32 in every precision: scores of a search are sums of many of them.
  const Tensor padded = with.numbers(rows, (table.rows + 7) / 8 * 8);
  Tensor logits = padded.columns(0, table.rows);
  linear_forward(device_, hidden, table, logits);
  if (model_.output_bias_ != kNone) {
    add_bias(device_, padded, f32_matrix(output_bias_.as<float>(), 1, padded.cols));
  }
  cached_rows_ += rows;
  ++steps_;
  return logits;
}

}  // namespace reigen
