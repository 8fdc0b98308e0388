// The workers of a job: their number, their hosts and the exchange between them.
#pragma once

#include <cstdint>
#include <string>

#include "config/compress_options.h"
#include "config/encrypt.h"
#include "config/schema.h"

namespace reigen {

// The way of gradients between GPUs: through host memory and TCP, or by NCCL.
enum class Transport { kAuto, kTcp, kNccl };

// How much of each batch a worker gets.
enum class Shares { kEqual, kMeasured };

struct WorkerOptions {
  int64_t workers = 0;  // on this host; 0: as started by a launcher, or one
  std::string hosts;    // "vm1:2,vm2:2"
  std::string hosts_file;
  std::string ssh_user;
  int64_t ssh_port = 0;
  std::string remote_binary;
  bool copy_binary = false;
  std::string interface;
  Transport transport = Transport::kAuto;
  Encrypt encrypt = Encrypt::kAuto;
  std::string token_file;
  bool insecure = false;
  CompressSetting compress;
  int64_t compress_warmup = -1;  // steps; -1: a tenth of the run
  uint64_t bucket = 0;           // bytes; 0: measured
  double preflight = 4;          // seconds
  double start_within = 60;      // seconds
  double silence = 10;           // seconds
  double stall = 3600;           // seconds; 0: no limit
  bool shard_optimizer = false;
  Shares shares = Shares::kEqual;
  std::string shares_of;  // a run whose changes of shares are repeated
  std::string replay;     // a run whose changes of workers and shares are repeated
  int64_t restarts = 0;
  bool elastic = false;
  double pause = 3600;     // seconds; 0: no limit
  double join_every = 60;  // seconds
  bool send_data = false;
  bool detach = false;
};

void describe(Schema& schema, WorkerOptions& options);

}  // namespace reigen
