// The secret of a job under launchers that give none: torchrun, and srun without PMIx.
#pragma once

#include <string>

namespace reigen {

// 22 characters of base64 carry 128 bits.
inline constexpr size_t kShortestSecret = 22;

// The token of a job that a launcher of ours starts: REIGEN_TOKEN, so that a worker can join it
// later, or random.
std::string token_of_new_job();

// Throws ConfigError if `secret`, from `source`, is too short to withstand guessing.
void check_secret(const std::string& secret, const std::string& source);

// The text in a file that only its owner can read. Throws ConfigError.
std::string read_token_file(const std::string& path);

// A random secret of this user on this machine: made once, and stored in a directory that no other
// user can read. All workers of a local job find the same. Throws IoError.
std::string local_secret();

}  // namespace reigen
