// Part of libreigen_cuda.so only.
#include "dist/group/nccl_entry.h"

void reigen_nccl_version(std::string* version, std::string* why) {
  *version = reigen::nccl_version(why);
}

void reigen_nccl_new_id(std::string* id) { *id = reigen::new_nccl_id(); }

void reigen_nccl_make_group(const reigen::NcclOptions* options, int64_t epoch,
                            std::unique_ptr<reigen::Group>* group) {
  *group = reigen::make_nccl_group(*options, epoch);
}
