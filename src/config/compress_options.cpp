#include "config/compress_options.h"

#include "base/error.h"
#include "base/format.h"
#include "config/schema.h"

namespace reigen {
namespace {

constexpr const char* kExpected =
    "expected none, bf16, fp16, int8, int4, powersgd:RANK, topk:FRACTION, local:STEPS or auto";
constexpr int64_t kMostRank = 512;
constexpr int64_t kMostSteps = 100'000;

}  // namespace

CompressSetting parse_compress(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const bool has_value = colon != std::string::npos;
  const std::string value = has_value ? text.substr(colon + 1) : "";
  CompressSetting setting;
  if (!has_value) {
    if (name == "none") return setting;
    if (name == "bf16") return {.method = CompressMethod::kBf16};
    if (name == "fp16") return {.method = CompressMethod::kFp16};
    if (name == "int8") return {.method = CompressMethod::kInt8};
    if (name == "int4") return {.method = CompressMethod::kInt4};
    if (name == "auto") return {.method = CompressMethod::kAuto};
    throw ConfigError(kExpected);
  }
  if (name == "powersgd") {
    return {.method = CompressMethod::kPowerSgd, .rank = parse_integer(value, 1, kMostRank)};
  }
  if (name == "topk") {
    return {.method = CompressMethod::kTopK, .fraction = parse_number(value, 1e-6, 0.5)};
  }
  if (name == "local") {
    return {.method = CompressMethod::kLocal, .every = parse_integer(value, 2, kMostSteps)};
  }
  throw ConfigError(kExpected);
}

std::string text_of(const CompressSetting& setting) {
  switch (setting.method) {
    case CompressMethod::kNone:
      return "none";
    case CompressMethod::kBf16:
      return "bf16";
    case CompressMethod::kFp16:
      return "fp16";
    case CompressMethod::kInt8:
      return "int8";
    case CompressMethod::kInt4:
      return "int4";
    case CompressMethod::kPowerSgd:
      return format("powersgd:{}", setting.rank);
    case CompressMethod::kTopK:
      return format("topk:{}", setting.fraction);
    case CompressMethod::kLocal:
      return format("local:{}", setting.every);
    case CompressMethod::kAuto:
      return "auto";
  }
  return "none";
}

}  // namespace reigen
