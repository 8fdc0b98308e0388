// A second copy of a run's last checkpoint: in a directory, on another host over ssh, or by a
// command of the user.
//
// A place has one copy, step-NNNNNNNN, and a link `last` to it. A new one is unpacked under a
// different name, compared there with its SHA256SUMS, synced and renamed; then the one before is
// removed. A host needs nothing but a shell, tar and coreutils.
//
// A command is called with: put DIRECTORY NAME; sums NAME, which prints the SHA-256 of the files as
// they arrived, as sha256sum does; keep NAME, after they were compared, to make that the copy; get
// DIRECTORY, which brings the copy back as DIRECTORY/NAME.
#pragma once

#include <functional>
#include <string>

#include "config/copy_target.h"
#include "dist/launch/ssh.h"

namespace reigen {

struct CopyPlace {
  CopyTarget target;
  SshOptions ssh;
};

// Copies `checkpoint`, a directory, as `name`, and returns when the copy is complete and verified.
// Throws IoError; also when `stop` returns true, which is asked ten times a second. Called on a
// thread that lives until it returns.
void put_copy(const CopyPlace& place, const std::string& checkpoint, const std::string& name,
              const std::function<bool()>& stop);

// Makes the run directory `run`, with the copy as its last checkpoint, complete or not at all;
// returns the step. Throws ConfigError if it exists, IoError, and CheckpointError for a copy that
// is damaged or not from `reigen train`.
uint64_t restore_run(const CopyPlace& place, const std::string& run);

}  // namespace reigen
