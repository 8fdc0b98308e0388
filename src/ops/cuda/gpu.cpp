#include "ops/cuda/gpu.h"

#include <cctype>
#include <fstream>
#include <sstream>

#include "base/format.h"
#include "ops/cuda/transfer.h"

namespace reigen::cuda {
namespace {

std::string version_text(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

// "580.82.07, " from "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.82.07  Wed ..."; empty
// where the kernel does not report it.
std::string driver_release() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (std::isdigit(static_cast<unsigned char>(word[0])) != 0 &&
        word.find('.') != std::string::npos) {
      return word + ", ";
    }
  }
  return "";
}

GpuFacts read_facts(int index) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, index), "read the properties of a GPU");
  int driver = 0;
  int runtime = 0;
  check(cudaDriverGetVersion(&driver), "read the version of the driver");
  check(cudaRuntimeGetVersion(&runtime), "read the version of the runtime");
  GpuFacts facts;
  facts.index = index;
  facts.name = properties.name;
  facts.memory = properties.totalGlobalMem;
  for (const char byte : properties.uuid.bytes) {
    facts.uuid += format("{:02x}", static_cast<unsigned char>(byte));
  }
  facts.capability = 10 * properties.major + properties.minor;
  facts.driver = driver_release() + "CUDA " + version_text(driver);
  facts.runtime = version_text(runtime);
  return facts;
}

}  // namespace

CudaGpu::CudaGpu(int index) : facts_(read_facts(index)), snapshots_(Stream::Priority::kLow) {}

uint64_t CudaGpu::free_memory() const {
  size_t available = 0;
  size_t total = 0;
  check(cudaMemGetInfo(&available, &total), "read the free memory");
  return available;
}

void CudaGpu::upload(void* to, const void* from, size_t bytes) {
  copy_to_device(to, from, bytes, context_.stream());
  wait();
}

void CudaGpu::download(void* to, const void* from, size_t bytes) {
  copy_to_host(to, from, bytes, context_.stream());
  wait();
}

void CudaGpu::copy(void* to, const void* from, size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, context_.stream()),
        "copy on the GPU");
}

void CudaGpu::clear(void* data, size_t bytes) { fill_zero(data, bytes, context_.stream()); }

void CudaGpu::make_current() const { check(cudaSetDevice(facts_.index), "use the GPU"); }

void CudaGpu::download_snapshot(void* to, const void* from, size_t bytes) {
  make_current();
  snapshot_.wait_on(snapshots_.get());
  copy_to_host(to, from, bytes, snapshots_.get());
  snapshots_.wait();
}

std::unique_ptr<GpuTransfer> CudaGpu::transfer() { return std::make_unique<Transfer>(context_); }

}  // namespace reigen::cuda
