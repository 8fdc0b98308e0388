// The value of `--compress`: how gradients are compressed between workers.
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
  double fraction = 0;  // topk: share of all elements
  int64_t every = 0;    // local: steps from one exchange to the next
  bool operator==(const CompressSetting&) const = default;
};

// "none", "bf16", "fp16", "int8", "int4", "powersgd:4", "topk:0.01", "local:20", "auto". Throws
// ConfigError.
CompressSetting parse_compress(const std::string& text);
std::string text_of(const CompressSetting& setting);

}  // namespace reigen
