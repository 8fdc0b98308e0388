// Names of a model's parameters in Hugging Face's Marian and Pegasus classes and in CTranslate2.
//
// The three programs store the same matrices, each [outputs, inputs]. Hugging Face separates
// queries, keys and values, which are one matrix here and in CTranslate2, in this order.
#pragma once

#include <string>
#include <vector>

namespace reigen {

// Whether a parameter is a matrix, also where it has a single row, and not a vector.
bool is_matrix(const std::string& name);

// The tensors that make up a parameter, one below the other; empty for a parameter that the classes
// do not have (learned positions). `name` as in ParameterSlice.
std::vector<std::string> hf_names(const std::string& name);

// The variable of a parameter; empty for positions, which CTranslate2 has once for each side.
std::string ctranslate2_name(const std::string& name);

// The biases of an attention layer, which a model without `model.biases` lacks and both classes of
// Hugging Face require, for the weight `name`; empty for any other parameter.
std::vector<std::string> hf_attention_biases(const std::string& name);

}  // namespace reigen
