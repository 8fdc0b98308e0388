// A group of GPUs, one for each worker, carried by NCCL over NVLink, PCIe or the network.
//
// The same operations as everywhere (group.h), but floats and bytes that are handed over are in the
// GPU's memory, complete when the call is made; only the few doubles of sum() are the host's. Sums
// in fp32 are NCCL's own and add in its order, the same on every rank. Rounded ones travel as bf16
// or fp16 and are added by one rank in fp32, in the order of ranks.
//
// Nothing waits inside NCCL: every operation is watched from outside, and when a worker is lost, or
// the group is closed, NCCL is aborted.
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
  std::string id;  // of this forming of the group, from new_nccl_id() of one rank
  // Whose failure ends the group: asked while an operation is under way.
  std::function<CommStatus()> outside = [] { return CommStatus{}; };
  std::chrono::milliseconds start_within{60'000};
  std::chrono::milliseconds timeout{0};  // for one operation; 0 for as long as it takes
  std::vector<std::string> machines;     // by rank, to tell what leaves this one; may be empty
};

// "2.28.9", or empty when NCCL is not there; `why` then says so.
std::string nccl_version(std::string* why = nullptr);

// Throws CommError, as does make_nccl_group.
std::string new_nccl_id();

std::unique_ptr<Group> make_nccl_group(const NcclOptions& options, int64_t epoch);

}  // namespace reigen
