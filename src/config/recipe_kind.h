// The name of a recipe: which values an option has that the user does not give.
#pragma once

namespace reigen {

enum class Recipe {
  kBest,     // the best known values for the size of the corpus
  kClassic,  // fixed values: Adam, noam, those of version 0.1
};

}  // namespace reigen
