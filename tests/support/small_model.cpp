#include "support/small_model.h"

namespace reigen {

Vocabulary numbered_pieces(size_t pieces) {
  std::string list = "</s>\n<unk>\n";
  for (size_t i = 2; i < pieces; ++i) list += "a" + std::to_string(i - 2) + "\n";
  return Vocabulary::from_piece_list(list, "numbered.vocab");
}

SmallModel::SmallModel(const ModelOptions& options, size_t pieces, uint64_t seed)
    : vocabulary(numbered_pieces(pieces)),
      model(options, {}, pieces),
      parameters(model.layout().elements()),
      first(parameters.size()),
      second(parameters.size()) {
  model.initialise(parameters, seed);
  model.initialise(first, seed + 1);
  model.initialise(second, seed + 2);
}

CheckpointFacts SmallModel::facts(uint64_t step) const {
  CheckpointFacts facts;
  facts.step = step;
  facts.model = model.options();
  facts.source_language = "en";
  facts.target_language = "de";
  facts.nfkc = false;
  facts.scores = {{"nll", 1.25}, {"bleu", 30.1}};
  facts.training = {{"data", "abc"}};
  return facts;
}

std::vector<NamedBuffer> SmallModel::moments() const {
  return {{"first_moment.", first}, {"second_moment.", second}};
}

CheckpointFacts SmallModel::write(const std::string& directory, uint64_t step) const {
  return write_checkpoint(directory, facts(step), model.layout(), parameters, moments(),
                          vocabulary);
}

}  // namespace reigen
