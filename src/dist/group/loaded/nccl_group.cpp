// dist/group/nccl_group.h through the loaded CUDA library.
#include "dist/group/nccl_group.h"

#include "base/error.h"
#include "device/loaded/cuda_library.h"
#include "dist/group/nccl_entry.h"

namespace reigen {
namespace {

std::string why_missing() {
  const std::string& missing = CudaLibrary::get().missing();
  return missing.empty() ? "the CUDA part of reigen was built without NCCL" : missing;
}

// Throws CommError if there is no such function.
template <class F>
F* function(const char* name) {
  F* const found = CudaLibrary::get().find<F>(name);
  if (found == nullptr) throw CommError(why_missing());
  return found;
}

}  // namespace

std::string nccl_version(std::string* why) {
  const auto ask = CudaLibrary::get().find<decltype(reigen_nccl_version)>("reigen_nccl_version");
  if (ask == nullptr) {
    if (why != nullptr) *why = why_missing();
    return "";
  }
  std::string version;
  ask(&version, why);
  return version;
}

std::string new_nccl_id() {
  std::string id;
  function<decltype(reigen_nccl_new_id)>("reigen_nccl_new_id")(&id);
  return id;
}

std::unique_ptr<Group> make_nccl_group(const NcclOptions& options, int64_t epoch) {
  std::unique_ptr<Group> group;
  function<decltype(reigen_nccl_make_group)>("reigen_nccl_make_group")(&options, epoch, &group);
  return group;
}

}  // namespace reigen
