// What TensorBoard's HParams page reads, as bytes: messages of its plugin_data.proto and api.proto.
//
// A run is one session: its settings when it begins, how it went when it ends. The metrics it is
// compared by are the scalars of its evaluations.
#pragma once

#include <string>

#include "base/json.h"

namespace reigen {

inline constexpr const char* kExperimentTag = "_hparams_/experiment";
inline constexpr const char* kSessionStartTag = "_hparams_/session_start_info";
inline constexpr const char* kSessionEndTag = "_hparams_/session_end_info";

// Those settings of a configuration that make runs differ, by full name: "model.width" to 512.
Json session_settings(const Json& config);

// `settings` map names to numbers, booleans or text.
std::string experiment_bytes(const Json& settings, double time);
std::string session_start_bytes(const Json& settings, double time);
std::string session_end_bytes(bool success, double time);

}  // namespace reigen
