// Data of TensorBoard's HParams page: messages of its plugin_data.proto and api.proto, as bytes.
//
// A run is one session, with its settings at the beginning and its status at the end. Runs are
// compared by the scalars of their evaluations.
#pragma once

#include <string>

#include "base/json/json.h"

namespace reigen {

inline constexpr const char* kExperimentTag = "_hparams_/experiment";
inline constexpr const char* kSessionStartTag = "_hparams_/session_start_info";
inline constexpr const char* kSessionEndTag = "_hparams_/session_end_info";

// The hyper-parameters of a configuration by full name, such as "model.width": 512.
Json session_settings(const Json& config);

// `settings` map names to numbers, booleans or text.
std::string experiment_bytes(const Json& settings, double time);
std::string session_start_bytes(const Json& settings, double time);
std::string session_end_bytes(bool success, double time);

}  // namespace reigen
