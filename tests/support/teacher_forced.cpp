#include "support/teacher_forced.h"

namespace reigen {

ModelOptions tiny_variant(const std::string& name) {
  ModelOptions options;
  options.width = 16;
  options.heads = 2;
  options.ffn_width = 24;
  options.encoder_layers = 2;
  options.decoder_layers = 2;
  options.max_length = 12;
  if (name == "post") {
    options.norm = NormPlace::kPost;
    options.activation = ActivationKind::kGelu;
    options.positions = Positions::kLearned;
  }
  if (name == "swish") options.activation = ActivationKind::kSwish;
  options.tied = name == "pre";
  options.biases = name != "pre";
  return options;
}

TeacherForced::TeacherForced(const ModelOptions& options, size_t pieces, uint64_t seed)
    : model(options, {}, pieces), parameters(model.layout().elements()) {
  model.initialise(parameters, seed);
  // Biases start as 0 and gains as 1: a bias or gain that is never applied would go unnoticed.
  for (size_t s = 0; s < model.layout().slices().size(); ++s) {
    const ParameterSlice& slice = model.layout().slices()[s];
    if (slice.rows != 1) continue;
    for (size_t i = 0; i < slice.size(); ++i) {
      parameters[slice.offset + i] += 0.05F * static_cast<float>((i * 7 + s * 3) % 11) - 0.25F;
    }
  }
}

double TeacherForced::loss(const std::vector<uint32_t>& source, uint32_t bos,
                           const std::vector<uint32_t>& target) {
  if (target.empty()) return 0;
  PackedBatch batch;
  batch.source = source;
  batch.target_out = target;
  batch.target_in = {bos};
  batch.target_in.insert(batch.target_in.end(), target.begin(), target.end() - 1);
  batch.source_offsets = {0, static_cast<uint32_t>(source.size())};
  batch.target_offsets = {0, static_cast<uint32_t>(target.size())};
  batch.first_source_token = {0};
  batch.first_target_token = {0};
  return model.evaluate(Device::cpu(1), batch, parameters, 0, arena_).nll;
}

std::vector<double> TeacherForced::log_probabilities(const std::vector<uint32_t>& source,
                                                     uint32_t bos,
                                                     const std::vector<uint32_t>& prefix) {
  const double before = loss(source, bos, prefix);
  std::vector<double> all;
  std::vector<uint32_t> target = prefix;
  for (uint32_t token = 0; token < model.vocabulary(); ++token) {
    target.push_back(token);
    all.push_back(before - loss(source, bos, target));
    target.pop_back();
  }
  return all;
}

}  // namespace reigen
