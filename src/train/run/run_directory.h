// The directory of a run: where things are, who holds it, which checkpoints there are.
//
//   config.yaml    every option, usable with --config
//   log.txt        what the terminal showed
//   measurements/  what was measured, a line a record
//   tensorboard/   the same for TensorBoard
//   checkpoints/   step-00001000 and so on
//   last, best-loss, best-bleu   links into checkpoints/
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reigen {

class RunDirectory {
 public:
  // Makes the directory if need be and locks it for this process; throws ConfigError when it is
  // something else's, or another process trains in it.
  explicit RunDirectory(std::string path);
  ~RunDirectory();  // nothing was written: nothing is left
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string checkpoint(uint64_t step) const;

  // Steps of the checkpoints, rising; whether they can be read is another matter.
  std::vector<uint64_t> checkpoints() const;

  // `name` points to a checkpoint from now on, in one move.
  void link(const std::string& name, uint64_t step) const;

  // Where a link points, if it is one to a step.
  std::optional<uint64_t> linked(const std::string& name) const;

  // Of the checkpoints up to `newest`, removes all but the latest `keep` and those in `needed`.
  void prune(uint64_t newest, size_t keep, const std::vector<uint64_t>& needed) const;

  // Moves a checkpoint that cannot be read out of the way, for a person to look at.
  void set_aside(uint64_t step) const;

  // A small file, replaced in one move.
  void write(const std::string& name, const std::string& text) const;

 private:
  void check_is_run() const;
  void lock();
  void remove_if_unused() const;

  std::string path_;
  int lock_fd_ = -1;
};

// Removes a run and everything in it; nothing when there is none. Throws ConfigError when it holds
// something reigen did not write, or is being trained in.
void remove_run(const std::string& path);

}  // namespace reigen
