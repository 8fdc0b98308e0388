// A group of GPUs, one for each worker, carried by NCCL over NVLink, PCIe or the network.
//
// The operations of group.h, with floats and bytes in GPU memory, final when the call is made; only
// the doubles of sum() are in host memory. fp32 sums are NCCL's own and add in its order, the same
// on every rank. bf16 and fp16 addends are summed by one rank in fp32, in the order of ranks.
//
// No thread blocks inside NCCL: every operation is polled, and NCCL is aborted if a worker is lost
// or the group is closed.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dist/group/group.h"

namespace reigen {

struct NcclOptions {
  int rank = 0;
  int size = 1;
  int gpu = 0;
  std::string id;  // from new_nccl_id() of one rank, for one epoch
  // Polled during an operation: a failure it returns ends the group.
  std::function<CommStatus()> outside = [] { return CommStatus{}; };
  std::chrono::milliseconds start_within{60'000};
  std::chrono::milliseconds timeout{0};  // for one operation; 0 for none
  std::vector<std::string> machines;     // by rank: equal for ranks of one machine; may be empty
};

// "2.28.9", or empty if NCCL is not available, with the reason in `why`.
std::string nccl_version(std::string* why = nullptr);

// Throws CommError, as does make_nccl_group.
std::string new_nccl_id();

std::unique_ptr<Group> make_nccl_group(const NcclOptions& options, int64_t epoch);

}  // namespace reigen
