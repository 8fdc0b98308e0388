#include "dist/group/nccl/library.h"

#include <dlfcn.h>

#include "base/error.h"
#include "base/format.h"

namespace reigen::nccl {
namespace {

constexpr const char* kName = "libnccl.so.2";

}  // namespace

const Library& Library::get() {
  static const Library library;
  return library;
}

Library::Library() : handle_(dlopen(kName, RTLD_NOW | RTLD_LOCAL), &dlclose) {
  if (!handle_) {
    throw CommError(
        format("{} cannot be loaded ({}); install NCCL, or use --transport tcp", kName, dlerror()));
  }
  load(version, "ncclGetVersion");
  load(unique_id, "ncclGetUniqueId");
  load(init, "ncclCommInitRankConfig");
  load(finalize, "ncclCommFinalize");
  load(destroy, "ncclCommDestroy");
  load(abort, "ncclCommAbort");
  load(async_error, "ncclCommGetAsyncError");
  load(error_text, "ncclGetErrorString");
  load(last_error, "ncclGetLastError");
  load(group_start, "ncclGroupStart");
  load(group_end, "ncclGroupEnd");
  load(all_reduce, "ncclAllReduce");
  load(broadcast, "ncclBroadcast");
  load(send, "ncclSend");
  load(receive, "ncclRecv");
}

template <class F>
void Library::load(F& function, const char* name) {
  function = reinterpret_cast<F>(dlsym(handle_.get(), name));
  if (function == nullptr) {
    throw CommError(
        format("{} has no {}: it is too old; update NCCL, or use --transport tcp", kName, name));
  }
}

}  // namespace reigen::nccl
