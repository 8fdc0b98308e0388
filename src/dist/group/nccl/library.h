// NCCL, loaded at run time: a machine without it trains over TCP.
#pragma once

#include <nccl.h>

#include <memory>
#include <string>

namespace reigen::nccl {

class Library {
 public:
  // Throws CommError if the library is missing or too old.
  static const Library& get();

  decltype(&ncclGetVersion) version = nullptr;
  decltype(&ncclGetUniqueId) unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) init = nullptr;
  decltype(&ncclCommFinalize) finalize = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclGetErrorString) error_text = nullptr;
  decltype(&ncclGetLastError) last_error = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;

 private:
  Library();
  template <class F>
  void load(F& function, const char* name);

  std::unique_ptr<void, int (*)(void*)> handle_;
};

}  // namespace reigen::nccl
