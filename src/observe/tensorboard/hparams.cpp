#include "observe/tensorboard/hparams.h"

#include <bit>

#include "base/protobuf.h"
#include "config/train_options.h"

namespace reigen {
namespace {

// HParamsPluginData and the messages inside it.
constexpr uint32_t kDataExperiment = 2;
constexpr uint32_t kDataSessionStart = 3;
constexpr uint32_t kDataSessionEnd = 4;
constexpr uint32_t kExperimentTime = 3;
constexpr uint32_t kExperimentHParams = 4;
constexpr uint32_t kExperimentMetrics = 5;
constexpr uint32_t kHParamName = 1;
constexpr uint32_t kHParamType = 4;
constexpr uint64_t kTypeString = 1;
constexpr uint64_t kTypeBool = 2;
constexpr uint64_t kTypeFloat = 3;
constexpr uint32_t kMetricName = 1;
constexpr uint32_t kMetricDisplayName = 3;
constexpr uint32_t kMetricDataset = 5;
constexpr uint64_t kDatasetValidation = 2;
constexpr uint32_t kMetricNameTag = 2;
constexpr uint32_t kSessionHParams = 1;
constexpr uint32_t kSessionStartTime = 5;
constexpr uint32_t kSessionStatus = 1;
constexpr uint32_t kSessionEndTime = 2;
constexpr uint64_t kStatusSuccess = 1;
constexpr uint64_t kStatusFailure = 2;
// A map's entry, and google.protobuf.Value.
constexpr uint32_t kEntryKey = 1;
constexpr uint32_t kEntryValue = 2;
constexpr uint32_t kValueNumber = 2;
constexpr uint32_t kValueString = 3;
constexpr uint32_t kValueBool = 4;

void append_double(std::string& message, uint32_t number, double value) {
  append_fixed64(message, number, std::bit_cast<uint64_t>(value));
}

// The version of the plugin is 0 and therefore left out.
std::string plugin_data(uint32_t kind, const std::string& content) {
  std::string data;
  append_bytes(data, kind, content);
  return data;
}

std::string value_of(const Json& setting) {
  std::string value;
  if (setting.is_boolean()) {
    append_varint(value, kValueBool, setting.get<bool>() ? 1 : 0);
  } else if (setting.is_number()) {
    append_double(value, kValueNumber, setting.get<double>());
  } else {
    append_bytes(value, kValueString, setting.get<std::string>());
  }
  return value;
}

uint64_t type_of(const Json& setting) {
  return setting.is_boolean() ? kTypeBool : setting.is_number() ? kTypeFloat : kTypeString;
}

}  // namespace

Json session_settings(const Json& config) {
  Json settings = Json::object();
  for (const std::string& key : hyperparameter_keys()) {
    const Json* value = value_at(config, key);
    if (value == nullptr || value->is_null()) continue;
    settings[key] = value->is_array() ? Json(one_line(*value)) : *value;
  }
  return settings;
}

std::string experiment_bytes(const Json& settings, double time) {
  std::string experiment;
  append_double(experiment, kExperimentTime, time);
  for (const auto& [name, setting] : settings.items()) {
    std::string info;
    append_bytes(info, kHParamName, name);
    append_varint(info, kHParamType, type_of(setting));
    append_bytes(experiment, kExperimentHParams, info);
  }
  for (const char* tag : {"eval/loss", "eval/BLEU", "eval/chrF"}) {
    std::string name;
    append_bytes(name, kMetricNameTag, tag);
    std::string info;
    append_bytes(info, kMetricName, name);
    append_bytes(info, kMetricDisplayName, tag);
    append_varint(info, kMetricDataset, kDatasetValidation);
    append_bytes(experiment, kExperimentMetrics, info);
  }
  return plugin_data(kDataExperiment, experiment);
}

std::string session_start_bytes(const Json& settings, double time) {
  std::string session;
  for (const auto& [name, setting] : settings.items()) {
    std::string entry;
    append_bytes(entry, kEntryKey, name);
    append_bytes(entry, kEntryValue, value_of(setting));
    append_bytes(session, kSessionHParams, entry);
  }
  append_double(session, kSessionStartTime, time);
  return plugin_data(kDataSessionStart, session);
}

std::string session_end_bytes(bool success, double time) {
  std::string session;
  append_varint(session, kSessionStatus, success ? kStatusSuccess : kStatusFailure);
  append_double(session, kSessionEndTime, time);
  return plugin_data(kDataSessionEnd, session);
}

}  // namespace reigen
