#include "model/transformer.h"

#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "model/quantized_parameters.h"
#include "model/stack.h"

namespace reigen {
namespace {

constexpr uint32_t kSourceEmbeddingSite = 0;
constexpr uint32_t kTargetEmbeddingSite = 1;
constexpr uint32_t kEncoderSites = 1000;
constexpr uint32_t kDecoderSites = 2000;

// As in Vaswani et al., sines in the first half of the width and cosines in the second.
std::vector<float> sinusoid_table(int64_t length, int64_t width) {
  std::vector<float> table(static_cast<size_t>(length * width));
  for (int64_t p = 0; p < length; ++p) {
    for (int64_t i = 0; i < width / 2; ++i) {
      double angle =
          static_cast<double>(p) *
          std::exp(-std::log(10000.0) * 2.0 * static_cast<double>(i) / static_cast<double>(width));
      table[static_cast<size_t>(p * width + i)] = static_cast<float>(std::sin(angle));
      table[static_cast<size_t>(p * width + width / 2 + i)] = static_cast<float>(std::cos(angle));
    }
  }
  return table;
}

}  // namespace

Transformer::Transformer(const ModelOptions& options, const DropoutOptions& dropout,
                         const PieceCounts& pieces)
    : options_(options), dropout_(dropout) {
  check_model_options(options);
  const auto source = static_cast<int64_t>(pieces.source);
  const auto target = static_cast<int64_t>(pieces.target);
  const int64_t width = options.width;
  const bool one_table = options.tied && pieces.joint;
  // The layout has the order of backward: projection, decoder, encoder, embeddings.
  if (options.output_bias) output_bias_ = layout_.add("projection.bias", 1, target);
  if (!options.tied) projection_ = layout_.add("projection.weight", target, width);
  decoder_ = std::make_unique<LayerStack>(layout_, "decoder", options, dropout,
                                          options.decoder_layers, true, kDecoderSites);
  if (!one_table) target_table_ = layout_.add("target_embedding.weight", target, width);
  encoder_ = std::make_unique<LayerStack>(layout_, "encoder", options, dropout,
                                          options.encoder_layers, false, kEncoderSites);
  if (options.positions == Positions::kLearned) {
    learned_positions_ = layout_.add("positions.weight", options.max_length, width);
  } else {
    sinusoids_ = sinusoid_table(options.max_length, width);
  }
  source_table_ =
      layout_.add(one_table ? "embedding.weight" : "source_embedding.weight", source, width);
  if (one_table) target_table_ = source_table_;
  if (options.tied) projection_ = target_table_;
  // A layer's share of backward's time is about its share of the parameters.
  const size_t layers = decoder_->elements() + encoder_->elements();
  layout_.set_gradient_timing(
      static_cast<double>(decoder_->top_elements()) / static_cast<double>(layers),
      encoder_->bottom_begin());
}

Transformer::~Transformer() = default;
Transformer::Transformer(Transformer&&) noexcept = default;

size_t Transformer::vocabulary() const {
  return static_cast<size_t>(layout_.slices()[projection_].rows);
}

bool Transformer::is_factor(size_t slice) const {
  const bool table = slice == source_table_ || slice == target_table_;
  return is_quantizable(layout_.slices()[slice]) && (!table || slice == projection_);
}

Tensor Transformer::positions(const Pass& pass) const {
  if (learned_positions_ != kNone) return pass.vector(learned_positions_);
  if (!pass.weights.sinusoids.empty()) return pass.weights.sinusoids;
  return f32_matrix(const_cast<float*>(sinusoids_.data()), options_.max_length, options_.width);
}

EmbedInput Transformer::embed_input(const Pass& pass, const SideIndex& side, uint32_t site) const {
  return {.ids = side.ids,
          .places = side.places,
          .scale = std::sqrt(static_cast<float>(options_.width)),
          .dropout = pass.dropout(dropout_.embedding, site, side),
          .plan = side.embed_plan};
}

Tensor Transformer::embed(const Pass& pass, const SideIndex& side, size_t table,
                          uint32_t site) const {
  Tensor out = pass.residual(side.rows, options_.width);
  EmbedInput input = embed_input(pass, side, site);
  input.int8_table = pass.int8(table);
  embed_forward(pass.device, input, pass.weight(table), positions(pass), out);
  return out;
}

void Transformer::embed_gradient(const Pass& pass, const SideIndex& side, size_t table,
                                 uint32_t site, Tensor dout) const {
  Tensor dpositions;
  if (learned_positions_ != kNone) dpositions = pass.gradient(learned_positions_);
  embed_backward(pass.device, embed_input(pass, side, site), dout, pass.gradient(table),
                 dpositions);
}

Tensor Transformer::encode(const Pass& pass) {
  const SideIndex& source = pass.batch->source;
  return encoder_->infer(pass, embed(pass, source, source_table_, kSourceEmbeddingSite), source);
}

Tensor Transformer::run_forward(const Pass& pass) {
  const SideIndex& source = pass.batch->source;
  const SideIndex& target = pass.batch->target;
  use_batch(pass.device, *pass.batch);
  Tensor memory =
      encoder_->forward(pass, embed(pass, source, source_table_, kSourceEmbeddingSite), source, {});
  return decoder_->forward(pass, embed(pass, target, target_table_, kTargetEmbeddingSite), target,
                           memory);
}

void Transformer::run_backward(const Pass& pass, Tensor dhidden,
                               const std::function<void(size_t)>& on_ready) {
  auto ready = [&](size_t elements) {
    if (on_ready) on_ready(elements);
  };
  const SideIndex& source = pass.batch->source;
  const SideIndex& target = pass.batch->target;
  Tensor dmemory = pass.matrix(source.rows, options_.width);
  Tensor dtarget = decoder_->backward(pass, dhidden, dmemory, ready);
  embed_gradient(pass, target, target_table_, kTargetEmbeddingSite, dtarget);
  Tensor dsource = encoder_->backward(pass, dmemory, {}, ready);
  embed_gradient(pass, source, source_table_, kSourceEmbeddingSite, dsource);
  ready(layout_.elements());
}

void Transformer::check_lengths(const PackedBatch& batch) const {
  auto check = [&](std::span<const uint32_t> offsets, const char* side) {
    for (size_t s = 0; s + 1 < offsets.size(); ++s) {
      if (offsets[s + 1] - offsets[s] > options_.max_length) {
        throw DataError(
            format("a {} sentence of {} tokens is longer than the model allows "
                   "(model.max-length {})",
                   side, offsets[s + 1] - offsets[s], options_.max_length));
      }
    }
  };
  check(batch.source_offsets, "source");
  check(batch.target_offsets, "target");
}

IndexShape Transformer::index_shape(DType type) const {
  return {static_cast<int>(options_.heads), options_.width / options_.heads, type,
          learned_positions_ != kNone};
}

std::unique_ptr<BatchIndex> Transformer::index(const Device& device, const PackedBatch& batch,
                                               DType type) const {
  check_lengths(batch);
  const BatchTokens tokens{
      .source = {batch.source, batch.source_offsets, batch.first_source_token},
      .target = {batch.target_in, batch.target_offsets, batch.first_target_token},
      .targets = batch.target_out};
  return index_batch(device, tokens, index_shape(type));
}

LossSums Transformer::forward_backward(const Device& device, const StepInput& input,
                                       const Weights& weights, std::span<float> gradients,
                                       Arena& arena, const StepEvents& events) {
  std::unique_ptr<BatchIndex> own;
  if (input.index == nullptr) own = index(device, input.batch, weights.type);
  arena.reset();
  Pass pass{device, layout_, weights, gradients.data(), arena};
  pass.batch = own ? own.get() : input.index;
  pass.training = true;
  pass.seed = input.seed;
  pass.step = input.step;
  Tensor hidden = run_forward(pass);
  ProjectionLoss loss{.hidden = hidden, .table = pass.weight(projection_)};
  loss.targets = pass.batch->targets;
  loss.smoothing = input.smoothing;
  loss.scale = input.loss_scale;
  loss.dhidden = pass.matrix(hidden.rows, hidden.cols);
  loss.dtable = pass.gradient(projection_);
  if (output_bias_ != kNone) {
    loss.bias = pass.vector(output_bias_);
    loss.dbias = pass.gradient(output_bias_);
  }
  loss.sums = input.sums;
  if (events.forward_done) events.forward_done();
  LossSums sums = projection_loss(device, loss, arena);
  if (events.loss_done) events.loss_done(sums);
  run_backward(pass, loss.dhidden, events.ready);
  return sums;
}

LossSums Transformer::evaluate(const Device& device, const PackedBatch& batch,
                               const Weights& weights, float smoothing, Arena& arena,
                               std::vector<float>* token_nll) {
  const std::unique_ptr<BatchIndex> own = index(device, batch, weights.type);
  arena.reset();
  Pass pass{device, layout_, weights, nullptr, arena};
  pass.batch = own.get();
  ProjectionLoss loss{.hidden = run_forward(pass), .table = pass.weight(projection_)};
  loss.packed = pass.factor(projection_).packed;
  if (output_bias_ != kNone) loss.bias = pass.vector(output_bias_);
  loss.targets = own->targets;
  loss.smoothing = smoothing;
  if (token_nll == nullptr) return projection_loss(device, loss, arena);
  token_nll->resize(static_cast<size_t>(loss.hidden.rows));
  loss.token_nll = token_nll->data();
  return projection_loss(device, loss, arena);
}

namespace {

// Uniform numbers in (0, 1), four for each counter.
class UniformStream {
 public:
  explicit UniformStream(uint64_t seed, uint32_t slice) : site_{seed, 0, slice} {}
  double next() {
    if (at_ % 4 == 0) {
      words_ = philox(philox_counter(site_, at_ / 4, 0), philox_key(site_));
    }
    return (static_cast<double>(words_[at_++ % 4]) + 0.5) * 0x1p-32;
  }

 private:
  RandomSite site_;
  uint64_t at_ = 0;
  std::array<uint32_t, 4> words_ = {};
};

}  // namespace

void Transformer::initialise(std::span<float> parameters, uint64_t seed) const {
  std::fill(parameters.begin(), parameters.end(), 0.0F);
  for (size_t s = 0; s < layout_.slices().size(); ++s) {
    const ParameterSlice& slice = layout_.slices()[s];
    std::span<float> values = parameters.subspan(slice.offset, slice.size());
    UniformStream uniform(seed, static_cast<uint32_t>(s));
    bool table =
        s == source_table_ || s == target_table_ || s == projection_ || s == learned_positions_;
    if (slice.name.ends_with(".gain")) {
      std::fill(values.begin(), values.end(), 1.0F);
    } else if (table) {
      const double deviation = 1 / std::sqrt(static_cast<double>(slice.cols));
      for (float& v : values) {  // Box and Muller
        double radius = std::sqrt(-2 * std::log(uniform.next()));
        v = static_cast<float>(deviation * radius * std::cos(2 * M_PI * uniform.next()));
      }
    } else if (slice.name.ends_with(".weight")) {
      // Scaled by the number of inputs alone. Glorot's bound, which uses inputs and outputs, starts
      // the square and the narrowing matrices of a pre-norm model too high: on Multi30k it is 0.18
      // nll behind after 1,000 steps (docs/design/engine.md).
      const double bound = 1 / std::sqrt(static_cast<double>(slice.cols));
      for (float& v : values) v = static_cast<float>(bound * (2 * uniform.next() - 1));
    }
  }
}

}  // namespace reigen
