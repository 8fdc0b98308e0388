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

// The calls we need, from the library if there is one.
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
    if (function == nullptr) throw CommError(format("{} lacks {}", kLibrary, name));
  }

  std::unique_ptr<void, int (*)(void*)> handle_;
};

}  // namespace

std::string share_from_rank_0(int rank, const std::string& give) {
  const Library library;
  pmix_proc_t self;
  library.check(library.init(&self, nullptr, 0), "init");
  // Left again at once: a process that ends before it has left counts as crashed with mpirun.
  struct Leave {
    const Library& library;
    ~Leave() { library.finalize(nullptr, 0); }
  } leave{library};
  if (rank == 0) {
    pmix_value_t value = {};
    value.type = PMIX_STRING;
    std::string text = give;
    value.data.string = text.data();
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
  // The few bytes of the answer stay until the process ends; freeing them takes more of the
  // library.
  if (found == nullptr || found->type != PMIX_STRING) throw CommError("PMIx: rank 0 left no text");
  return found->data.string;
}

}  // namespace reigen
