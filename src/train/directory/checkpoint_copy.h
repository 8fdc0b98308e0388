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

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "config/copy_target.h"
#include "dist/launch/hosts/ssh.h"

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

// The step of the copy at a directory or on a host, by its link alone; nothing where there is none.
// Throws IoError where the host cannot be asked.
std::optional<uint64_t> find_copy(const CopyPlace& place);

// Makes the run directory `run`, with the copy as its last checkpoint, complete or not at all;
// returns the step. Throws ConfigError if it exists, IoError, and CheckpointError for a copy that
// is damaged or not from `reigen train`.
uint64_t restore_run(const CopyPlace& place, const std::string& run);

// The same; nothing where the place has no copy. A command is not asked first: it fails.
std::optional<uint64_t> restore_if_copied(const CopyPlace& place, const std::string& run);

}  // namespace reigen
