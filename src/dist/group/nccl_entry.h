// The entries of NCCL in libreigen_cuda.so (device/cuda_entry.h). The library lacks them if NCCL's
// header was not found when it was built.
#pragma once

#include <memory>
#include <string>

#include "dist/group/nccl_group.h"

extern "C" {

void reigen_nccl_version(std::string* version, std::string* why);
void reigen_nccl_new_id(std::string* id);
void reigen_nccl_make_group(const reigen::NcclOptions* options, int64_t epoch,
                            std::unique_ptr<reigen::Group>* group);
}
