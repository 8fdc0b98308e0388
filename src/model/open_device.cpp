#include "model/open_device.h"

#include "base/error.h"
#include "base/format.h"
#include "base/terminal.h"
#include "device/cuda_info.h"
#include "ops/backend.h"
#include "ops/gpu_backend.h"

namespace reigen {
namespace {

constexpr int64_t kMostHeadWidth = 256;
constexpr int64_t kMostWidth = 2048;

Precision resolve(Precision wanted, const GpuFacts& gpu) {
  if (wanted == Precision::kAuto) return gpu.has_bf16() ? Precision::kBf16 : Precision::kFp16;
  if (wanted == Precision::kBf16 && !gpu.has_bf16()) {
    throw ConfigError(
        format("{} (sm_{}) has no bf16; use --precision fp16 or fp32", gpu.name, gpu.capability));
  }
  if (wanted == Precision::kTf32 && gpu.capability < 80) {
    throw ConfigError(
        format("{} (sm_{}) has no TF32; use --precision fp32", gpu.name, gpu.capability));
  }
  return wanted;
}

DType type_of(Precision precision) {
  if (precision == Precision::kBf16) return DType::kBF16;
  return precision == Precision::kFp16 ? DType::kF16 : DType::kF32;
}

}  // namespace

namespace {

OpenedDevice open_cpu(Precision precision, int threads) {
  OpenedDevice opened = {Device::cpu(threads)};
  if (precision == Precision::kAuto || use_precision(opened, precision)) return opened;
  throw ConfigError(
      format("precision {} needs a GPU; the CPU computes in fp32 or bf16", name_of(precision)));
}

}  // namespace

OpenedDevice open_device(const DeviceOptions& options, int threads) {
  const DeviceChoice choice = parse_device(options.device);
  const bool gpu = choice.gpu || (choice.automatic && usable_gpus() > 0);
  if (!gpu) {
    if (choice.automatic && !why_gpu_unused().empty()) {
      log_warning(format("the GPU of this machine is not used: {}", why_gpu_unused()));
    }
    return open_cpu(options.precision, threads);
  }
  Device device = open_gpu(choice.gpu.value_or(0));
  const Precision precision = resolve(options.precision, device.gpu()->facts());
  gpu_backend(device)->allow_tf32(precision == Precision::kTf32);
  return {device, precision, type_of(precision)};
}

Device host_device(const Device& device, int64_t threads) {
  return device.kind() == DeviceKind::kCpu ? device : Device::cpu(static_cast<int>(threads));
}

bool use_precision(OpenedDevice& opened, Precision precision) {
  Gpu* gpu = opened.device.gpu();
  if (gpu == nullptr) {
    if (precision != Precision::kFp32 && precision != Precision::kBf16) return false;
    const bool bf16 = precision == Precision::kBf16;
    opened.device = opened.device.with_backend(bf16 ? bf16_cpu_backend() : nullptr);
    if (bf16 && !cpu_has_bf16()) {
      log_warning(
          "this processor has no AVX-512 BF16: products in bf16 are emulated, with the same "
          "results "
          "up to rounding, and take longer than those of --precision fp32");
    }
    opened.precision = precision;
    return true;
  }
  const bool needs_ampere = precision == Precision::kBf16 || precision == Precision::kTf32;
  if (needs_ampere && gpu->facts().capability < 80) return false;
  gpu_backend(opened.device)->allow_tf32(precision == Precision::kTf32);
  opened.precision = precision;
  opened.type = type_of(precision);
  return true;
}

void check_model_for(const Device& device, const ModelOptions& o) {
  if (device.kind() == DeviceKind::kCpu) return;
  auto require = [](bool good, const char* what, int64_t value, const char* wanted) {
    if (good) return;
    throw ConfigError(
        format("{} {} is not supported on a GPU, which needs {}; change it or use --device cpu",
               what, value, wanted));
  };
  require(o.width % 8 == 0 && o.width <= kMostWidth, "model.width", o.width,
          "multiples of 8 up to 2048");
  require(o.ffn_width % 8 == 0, "model.ffn-width", o.ffn_width, "multiples of 8");
  const int64_t head = o.width / o.heads;
  require(head % 8 == 0 && head <= kMostHeadWidth, "a head width (model.width / model.heads) of",
          head, "multiples of 8 up to 256");
}

std::string describe(const OpenedDevice& opened) {
  const Gpu* gpu = opened.device.gpu();
  if (gpu == nullptr) {
    return format("{} CPU {}{}", opened.device.threads(),
                  opened.device.threads() == 1 ? "thread" : "threads",
                  opened.precision != Precision::kBf16 ? ""
                  : cpu_has_bf16()                     ? ", products in bf16"
                                                       : ", products in bf16, emulated");
  }
  const GpuFacts& facts = gpu->facts();
  return format("{} (GPU {}, {}), CUDA {}, driver {}, {}", facts.name, facts.index,
                human_bytes(facts.memory), facts.runtime, facts.driver, name_of(opened.precision));
}

}  // namespace reigen
