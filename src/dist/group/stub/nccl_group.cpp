// dist/group/nccl_group.h in a build without NCCL's header: every call is refused.
#include "dist/group/nccl_group.h"

#include "base/error.h"

namespace reigen {
namespace {

constexpr const char* kWhy = "this reigen was built without NCCL";

}  // namespace

std::string nccl_version(std::string* why) {
  if (why != nullptr) *why = kWhy;
  return "";
}

std::string new_nccl_id() { throw CommError(kWhy); }

std::unique_ptr<Group> make_nccl_group(const NcclOptions&, int64_t) { throw CommError(kWhy); }

}  // namespace reigen
