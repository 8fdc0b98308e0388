#include "model/incremental.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "device/gpu.h"
#include "model/stack.h"
#include "ops/gpu_backend.h"
#include "ops/matmul.h"

namespace reigen {
namespace {

// Products of decoding have many shapes that are used a few times each: timing algorithms for them
// takes longer than the best choice gains.
class UntimedProducts {
 public:
  explicit UntimedProducts(const Device& device) : gpu_(gpu_backend(device)) {
    if (gpu_ != nullptr) gpu_->time_algorithms(false);
  }
  ~UntimedProducts() {
    if (gpu_ != nullptr) gpu_->time_algorithms(true);
  }
  UntimedProducts(const UntimedProducts&) = delete;
  UntimedProducts& operator=(const UntimedProducts&) = delete;

 private:
  GpuBackend* gpu_;
};

// The first free element of a list whose elements are free when `free` says so.
template <class T, class Free>
size_t first_free(std::vector<T>& list, Free free) {
  const auto found = std::find_if(list.begin(), list.end(), free);
  if (found != list.end()) return static_cast<size_t>(found - list.begin());
  list.emplace_back();
  return list.size() - 1;
}

}  // namespace

void check_source_length(size_t tokens, int64_t limit) {
  if (tokens > 0 && tokens <= static_cast<size_t>(limit)) return;
  throw DataError(
      format("a source of {} tokens cannot be translated; the model accepts 1 to {}, end of "
             "sentence included (model.max-length)",
             tokens, limit));
}

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
  const float* master = vector_of(model_.layout(), model_.output_bias_, weights_).row(0);
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

void IncrementalDecoder::check_lengths(std::span<const uint32_t> offsets) const {
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    check_source_length(offsets[s + 1] - offsets[s], model_.options().max_length);
  }
}

// One block, reused while it is large enough, so that its pages stay mapped.
void IncrementalDecoder::reserve(int64_t source_rows, int64_t target_rows) {
  const int64_t d = model_.options().width;
  const int64_t layers = model_.options().decoder_layers;
  const int64_t rows = layers * (target_rows + source_rows);
  const size_t bytes = static_cast<size_t>(rows * 2 * d) * size_of(weights_.type);
  most_cache_bytes_ = std::max(most_cache_bytes_, written_cache_bytes());
  if (caches_.capacity() < bytes) caches_ = Arena(device_.kind());
  caches_.reset();
  Tensor all = caches_.matrix(rows, 2 * d, weights_.type);
  auto take = [&](int64_t count) {
    const Tensor cache = all.rows_from(0, count);
    all = all.rows_from(count, all.rows - count);
    return cache;
  };
  self_caches_.clear();
  cross_caches_.clear();
  for (int64_t l = 0; l < layers; ++l) {
    self_caches_.push_back(take(target_rows));
    cross_caches_.push_back(take(source_rows));
  }
  sources_pool_ = RowPool(source_rows);
  targets_ = RowPool(target_rows);
  source_picks_.resize(static_cast<size_t>(source_rows));
  std::iota(source_picks_.begin(), source_picks_.end(), 0u);
  groups_.clear();
  sentences_.clear();
  promised_ = 0;
  sentence_of_.clear();
  last_kept_.assign(static_cast<size_t>(target_rows), 0);
  sweep_ = 0;
  ancestors_ = {};
}

size_t IncrementalDecoder::written_cache_bytes() const {
  const ModelOptions& o = model_.options();
  const int64_t rows = o.decoder_layers * (sources_pool_.highest() + targets_.highest());
  return static_cast<size_t>(rows * 2 * o.width) * size_of(weights_.type);
}

size_t IncrementalDecoder::used_memory() const {
  return std::max(most_cache_bytes_, written_cache_bytes()) + arena_.peak();
}

uint32_t IncrementalDecoder::new_group(int64_t first, int64_t rows, size_t sentences) {
  const size_t group = first_free(groups_, [](const Group& g) { return g.sentences == 0; });
  groups_[group] = {first, rows, sentences};
  return static_cast<uint32_t>(group);
}

std::optional<std::vector<CachedSource>> IncrementalDecoder::encode(
    std::span<const uint32_t> ids, std::span<const uint32_t> offsets) {
  check_lengths(offsets);
  if (static_cast<int64_t>(ids.size()) > sources_pool_.largest_gap()) return std::nullopt;
  const auto index =
      index_batch(device_, {.source = {ids, offsets, {}}}, model_.index_shape(weights_.type));
  const int64_t rows = index->source.rows;
  const auto first = sources_pool_.take(rows);
  if (!first) return std::nullopt;
  const UntimedProducts untimed(device_);
  arena_.reset();
  Pass with = pass();
  with.batch = index.get();
  use_batch(device_, *index);
  const Tensor memory = model_.encode(with);
  std::vector<Tensor> caches;
  for (const Tensor& cache : cross_caches_) caches.push_back(cache.rows_from(*first, rows));
  model_.decoder_->project_memory(with, memory, caches);

  const uint32_t group = new_group(*first, rows, offsets.size() - 1);
  std::vector<CachedSource> sources;
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    sources.push_back(
        {static_cast<uint32_t>(*first) + offsets[s], offsets[s + 1] - offsets[s], group});
  }
  return sources;
}

void IncrementalDecoder::release(const CachedSource& source) {
  Group& group = groups_[source.group];
  if (--group.sentences == 0) sources_pool_.give_back(group.first, group.rows);
}

// A row without ancestors, which the first step of the sentence names as its parent.
void IncrementalDecoder::enter(const CachedSource& source, int64_t room) {
  const size_t sentence = first_free(sentences_, [](const Sentence& s) { return !s.alive; });
  sentences_[sentence] = {.source = source, .room = room, .alive = true};
  promised_ += room;
  sentence_of_.push_back(static_cast<uint32_t>(sentence));
  ancestors_.begin.push_back(static_cast<uint32_t>(ancestors_.picks.size()));
  ancestors_.count.push_back(0);
}

bool IncrementalDecoder::add(std::span<const uint32_t> ids, std::span<const uint32_t> offsets,
                             std::span<const int64_t> rows) {
  check_lengths(offsets);
  const int64_t wanted = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  if (promised_ + wanted > targets_.rows()) return false;
  const auto sources = encode(ids, offsets);
  if (!sources) return false;
  for (size_t s = 0; s < sources->size(); ++s) enter((*sources)[s], rows[s]);
  return true;
}

// There is one, because all sentences together use no more rows than they were promised.
uint32_t IncrementalDecoder::take_row(uint32_t number, size_t length) {
  Sentence& sentence = sentences_[number];
  if (sentence.used == sentence.room || length > static_cast<size_t>(model_.options().max_length)) {
    throw std::logic_error(
        format("token {} of a translation exceeds the {} rows it may use", length, sentence.room));
  }
  ++sentence.used;
  return static_cast<uint32_t>(*targets_.take(1));
}

// Of the cache rows of the last step.
void IncrementalDecoder::give_back_all_but_ancestors(std::span<const uint32_t> rows) {
  ++sweep_;
  for (const uint32_t row : rows) {
    const auto from = ancestors_.picks.begin() + static_cast<ptrdiff_t>(ancestors_.begin[row]);
    std::for_each_n(from, ancestors_.count[row], [&](uint32_t at) { last_kept_[at] = sweep_; });
  }
  for (size_t row = 0; row < ancestors_.count.size(); ++row) {
    const auto from = ancestors_.picks.begin() + static_cast<ptrdiff_t>(ancestors_.begin[row]);
    std::for_each_n(from, ancestors_.count[row], [&](uint32_t at) {
      if (last_kept_[at] == sweep_) return;
      last_kept_[at] = sweep_;  // once
      targets_.give_back(at, 1);
      --sentences_[sentence_of_[row]].used;
    });
  }
}

// Copies each row's ancestor list from its parent and appends a row of its own.
void IncrementalDecoder::follow(std::span<const uint32_t> parents) {
  keep(parents);
  for (auto* list : {&next_.picks, &next_.begin, &next_.count, &next_sentence_, &source_begin_,
                     &source_count_, &places_}) {
    list->clear();
  }
  for (const uint32_t parent : parents) {
    const uint32_t number = sentence_of_[parent];
    const uint32_t before = ancestors_.count[parent];
    next_.begin.push_back(static_cast<uint32_t>(next_.picks.size()));
    const auto from = ancestors_.picks.begin() + static_cast<ptrdiff_t>(ancestors_.begin[parent]);
    next_.picks.insert(next_.picks.end(), from, from + static_cast<ptrdiff_t>(before));
    next_.picks.push_back(take_row(number, before + 1));
    next_.count.push_back(before + 1);
    next_sentence_.push_back(number);
    places_.push_back(before);
    source_begin_.push_back(sentences_[number].source.first);
    source_count_.push_back(sentences_[number].source.count);
  }
  std::swap(ancestors_, next_);
  std::swap(sentence_of_, next_sentence_);
}

void IncrementalDecoder::keep(std::span<const uint32_t> rows) {
  give_back_all_but_ancestors(rows);
  std::vector<bool> kept(ancestors_.count.size());
  for (const uint32_t row : rows) kept[row] = true;
  for (const uint32_t number : sentence_of_) sentences_[number].alive = false;
  for (const uint32_t row : rows) sentences_[sentence_of_[row]].alive = true;
  for (size_t row = 0; row < kept.size(); ++row) {
    if (!kept[row]) ancestors_.count[row] = 0;  // its cache rows are not its own any more
    Sentence& sentence = sentences_[sentence_of_[row]];
    if (sentence.alive || sentence.room == 0) continue;
    release(sentence.source);
    promised_ -= std::exchange(sentence.room, 0);  // its other rows find it released
  }
}

Tensor IncrementalDecoder::embed(const Pass& with, std::span<const uint32_t> tokens,
                                 std::span<const uint32_t> places) const {
  const int64_t width = model_.options().width;
  Tensor out = with.residual(static_cast<int64_t>(tokens.size()), width);
  const EmbedInput input{.ids = tokens,
                         .places = places,
                         .scale = std::sqrt(static_cast<float>(width)),
                         .int8_table = with.int8(model_.target_table_)};
  embed_forward(device_, input, with.weight(model_.target_table_), model_.positions(with), out);
  return out;
}

Tensor IncrementalDecoder::step(std::span<const uint32_t> parents,
                                std::span<const uint32_t> tokens) {
  follow(parents);
  const StagedLists lists(device_, {tokens, places_, ancestors_.picks, ancestors_.begin,
                                    ancestors_.count, source_picks_, source_begin_, source_count_});
  return step(StepLists{
      lists[0], lists[1], {lists[2], lists[3], lists[4]}, {lists[5], lists[6], lists[7]}});
}

Tensor IncrementalDecoder::step(const StepLists& lists) {
  const UntimedProducts untimed(device_);
  arena_.reset();
  const Pass with = pass();
  const DecodeStep at{self_caches_, cross_caches_, lists.ancestors, lists.sources};
  const Tensor hidden = model_.decoder_->step(with, embed(with, lists.tokens, lists.places), at);
  const LinearWeight table = with.factor(model_.projection_);
  const int64_t pieces = table.values.rows;
  // Logits are fp32 in every precision: scores of a search are sums of many of them. A GPU reads
  // them by eights.
  const bool by_eights = device_.gpu() != nullptr;
  const Tensor padded = with.numbers(hidden.rows, by_eights ? (pieces + 7) / 8 * 8 : pieces);
  const Tensor logits = padded.columns(0, pieces);
  linear_forward(device_, hidden, table, logits);
  if (model_.output_bias_ != kNone) {
    add_bias(device_, padded, f32_matrix(output_bias_.as<float>(), 1, padded.cols));
  }
  return logits;
}

}  // namespace reigen
