#include "config/device_options.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

const std::vector<std::pair<std::string, Precision>> kPrecisions = {{"auto", Precision::kAuto},
                                                                    {"fp32", Precision::kFp32},
                                                                    {"tf32", Precision::kTf32},
                                                                    {"bf16", Precision::kBf16},
                                                                    {"fp16", Precision::kFp16}};

}  // namespace

void describe(Schema& s, DeviceOptions& o) {
  s.option("device", o.device, "NAME",
           "compute device: cpu, cuda (the first GPU), cuda:1 and so on, or auto for a GPU if "
           "there is one")
      .free_on_resume()
      .per_worker();
  s.choice("precision", o.precision,
           "numeric precision of matrix products, and on a GPU of activations; parameters, sums "
           "and the optimizer stay fp32; auto is bf16 on a GPU (fp16 on GPUs without bf16) and "
           "fp32 on a CPU, or bf16 there for a new training run of a model of width 256 or more if "
           "a measurement at its start finds it faster; a CPU supports fp32 and bf16; without "
           "AVX-512 BF16, bf16 is emulated and slower",
           kPrecisions)
      .hyperparameter()
      .free_on_resume()
      .for_launch();
}

DeviceChoice parse_device(const std::string& text) {
  if (text == "auto") return {.automatic = true};
  if (text == "cpu") return {};
  if (text == "cuda") return {.gpu = 0};
  const std::string number = text.starts_with("cuda:") ? text.substr(5) : "";
  const bool digits =
      !number.empty() && number.size() <= 3 &&
      std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) {
    throw ConfigError(format("unknown device '{}'; use auto, cpu, cuda or cuda:NUMBER", text));
  }
  return {.gpu = std::stoi(number)};
}

const char* name_of(Precision precision) {
  for (const auto& [name, known] : kPrecisions) {
    if (known == precision) return name.c_str();
  }
  return "";
}

Precision precision_of(const std::string& name) {
  for (const auto& [known, precision] : kPrecisions) {
    if (name == known) return precision;
  }
  throw ConfigError(format("unknown precision '{}'; use auto, fp32, tf32, bf16 or fp16", name));
}

}  // namespace reigen
