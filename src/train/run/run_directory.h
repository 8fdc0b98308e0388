// The directory of a run: its files, its lock, its checkpoints.
//
//   config.yaml    all options, usable with --config
//   log.txt        the log lines
//   measurements/  the measurement log, one JSON record per line
//   tensorboard/   the same records as event files
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
  // Makes the directory where there is none and locks it for this process. Throws ConfigError when
  // it holds files that are not a run's, or when a different process trains in it.
  explicit RunDirectory(std::string path);
  ~RunDirectory();  // removes the directory if nothing was written
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string checkpoint(uint64_t step) const;

  // Steps of the checkpoints, rising. The checkpoints may be damaged.
  std::vector<uint64_t> checkpoints() const;

  // Points the link `name` to a checkpoint, atomically.
  void link(const std::string& name, uint64_t step) const;

  // The step that the link points to; none where it is not a link to a checkpoint.
  std::optional<uint64_t> linked(const std::string& name) const;

  // Removes the checkpoints up to step `newest`, except for the latest `keep` and those in
  // `needed`.
  void prune(uint64_t newest, size_t keep, const std::vector<uint64_t>& needed) const;

  // Renames a checkpoint that cannot be read to step-NNNNNNNN.damaged.
  void set_aside(uint64_t step) const;

  // Writes a small file, atomically.
  void write(const std::string& name, const std::string& text) const;

 private:
  void check_is_run() const;
  void refuse_links() const;
  void lock();
  void remove_if_unused() const;

  std::string path_;
  int lock_fd_ = -1;
};

// Removes a run and all of its files; does nothing when there is none. Throws ConfigError when it
// holds files that are not a run's, or when a process trains in it.
void remove_run(const std::string& path);

}  // namespace reigen
