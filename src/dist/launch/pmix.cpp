#include "dist/launch/pmix.h"

#include <dlfcn.h>
#include <pmix.h>

#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

constexpr const char* kLibrary = "libpmix.so.2";
constexpr const char* kKey = "reigen.meet";

// The functions we use, loaded from the library.
class Library {
 public:
  Library() : handle_(dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL), &dlclose) {
    if (!handle_) {
      throw CommError(
          format("started by mpirun or srun with PMIx, but {} cannot be loaded ({}); "
                 "install libpmix2 or set REIGEN_RENDEZVOUS and REIGEN_TOKEN",
                 kLibrary, dlerror()));
    }
    load(init, "PMIx_Init");
    load(put, "PMIx_Put");
    load(commit, "PMIx_Commit");
    load(fence, "PMIx_Fence");
    load(get, "PMIx_Get");
    load(finalize, "PMIx_Finalize");
    load(error_text, "PMIx_Error_string");
  }

  decltype(&PMIx_Init) init = nullptr;
  decltype(&PMIx_Put) put = nullptr;
  decltype(&PMIx_Commit) commit = nullptr;
  decltype(&PMIx_Fence) fence = nullptr;
  decltype(&PMIx_Get) get = nullptr;
  decltype(&PMIx_Finalize) finalize = nullptr;
  decltype(&PMIx_Error_string) error_text = nullptr;

  void check(pmix_status_t status, const char* what) const {
    if (status != PMIX_SUCCESS) throw CommError(format("PMIx: {}: {}", what, error_text(status)));
  }

 private:
  template <class F>
  void load(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(handle_.get(), name));
    if (function == nullptr) throw CommError(format("{} has no {}: it is too old", kLibrary, name));
  }

  std::unique_ptr<void, int (*)(void*)> handle_;
};

}  // namespace

std::string share_from_rank_0(int rank, const std::string& text) {
  const Library library;
  pmix_proc_t self;
  library.check(library.init(&self, nullptr, 0), "init");
  // Finalized at once: to mpirun a process that ends without it has crashed.
  struct Leave {
    const Library& library;
    ~Leave() { library.finalize(nullptr, 0); }
  } leave{library};
  if (rank == 0) {
    pmix_value_t value = {};
    value.type = PMIX_STRING;
    std::string copy = text;
    value.data.string = copy.data();
    library.check(library.put(PMIX_GLOBAL, kKey, &value), "put");
    library.check(library.commit(), "commit");
  }
  pmix_info_t collect = {};
  std::strncpy(collect.key, PMIX_COLLECT_DATA, sizeof collect.key - 1);
  collect.value.type = PMIX_BOOL;
  collect.value.data.flag = true;
  library.check(library.fence(nullptr, 0, &collect, 1), "fence");
  pmix_proc_t root = self;
  root.rank = 0;
  pmix_value_t* found = nullptr;
  library.check(library.get(&root, kKey, nullptr, 0, &found), "get");
  // The answer's few bytes are not freed: that would need more functions of the library.
  if (found == nullptr || found->type != PMIX_STRING)
    throw CommError("PMIx: rank 0 published no text");
  return found->data.string;
}

}  // namespace reigen
