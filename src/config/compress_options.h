// How gradients are made smaller before they travel between workers: what `--compress` says.
#pragma once

#include <cstdint>
#include <string>

namespace reigen {

enum class CompressMethod : uint8_t {
  kNone,
  kBf16,
  kFp16,
  kInt8,
  kInt4,
  kPowerSgd,
  kTopK,
  kLocal,
  kAuto
};

struct CompressSetting {
  CompressMethod method = CompressMethod::kNone;
  int64_t rank = 0;     // powersgd
  double fraction = 0;  // topk: of all elements
  int64_t every = 0;    // local: steps from one exchange to the next
  bool operator==(const CompressSetting&) const = default;
};

// "none", "bf16", "fp16", "int8", "int4", "powersgd:4", "topk:0.01", "local:20", "auto". Throws
// ConfigError.
CompressSetting parse_compress(const std::string& text);
std::string text_of(const CompressSetting& setting);

// How gradients travel in the first steps of a run, where has_warmup().
inline constexpr CompressSetting kWarmupSetting = {.method = CompressMethod::kInt4};
inline bool has_warmup(const CompressSetting& setting) {
  return setting.method == CompressMethod::kPowerSgd || setting.method == CompressMethod::kTopK ||
         setting.method == CompressMethod::kLocal;
}

// Whether gradients have to come to the host for it; the others travel from GPU to GPU as well.
inline bool computed_on_host(const CompressSetting& setting) {
  return setting.method != CompressMethod::kNone && setting.method != CompressMethod::kBf16 &&
         setting.method != CompressMethod::kFp16;
}

}  // namespace reigen
