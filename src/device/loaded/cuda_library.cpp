#include "device/loaded/cuda_library.h"

#include <dlfcn.h>

#include <filesystem>

#include "base/build.h"
#include "base/format.h"
#include "base/process/own_program.h"
#include "device/cuda_entry.h"

namespace reigen {
namespace {

constexpr const char* kName = "libreigen_cuda.so";

}  // namespace

const CudaLibrary& CudaLibrary::get() {
  static const CudaLibrary library;
  return library;
}

CudaLibrary::CudaLibrary() {
  const std::filesystem::path folder =
      std::filesystem::path(own_program().path).parent_path().lexically_normal();
  const std::filesystem::path other = (folder / "../lib/reigen").lexically_normal();
  for (const std::filesystem::path& place : {folder, other}) {
    if (std::filesystem::exists(place / kName)) {
      load(place / kName);
      return;
    }
  }
  missing_ = format(
      "the CUDA part of reigen is not installed: no {} in {} or {}; unpack the CUDA archive there, "
      "or build with `cmake --preset cuda` where nvcc is found",
      kName, folder.string(), other.string());
}

void CudaLibrary::load(const std::string& path) {
  handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    missing_ = format(
        "{} cannot be loaded ({}); install CUDA's libraries (libcublasLt), or set LD_LIBRARY_PATH "
        "to the folder that has them",
        path, dlerror());
    return;
  }
  const auto build = find<decltype(reigen_cuda_build)>("reigen_cuda_build");
  const std::string its = build == nullptr ? "an unknown build" : build();
  if (its == version_line()) return;
  missing_ = format("{} belongs to {}, and this is {}; install both from the same release", path,
                    its, version_line());
  handle_ = nullptr;
}

void* CudaLibrary::symbol(const char* name) const {
  return handle_ == nullptr ? nullptr : dlsym(handle_, name);
}

}  // namespace reigen
