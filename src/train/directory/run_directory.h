// The directory of a run: its files, its lock, its checkpoints.
//
//   config.yaml    all options, usable with --config
//   log.txt        the log lines
//   measurements/  the measurement log, one JSON record per line
//   tensorboard/   the same records as event files
//   checkpoints/   step-00001000 and so on
//   last, best-loss, best-bleu   links into checkpoints/
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reigen {

class RunDirectory {
 public:
  // Makes the directory where there is none and locks it for this process. Throws ConfigError when
  // it holds files that are not a run's, or when a different process trains in it for longer than
  // `wait`.
  explicit RunDirectory(std::string path, std::chrono::seconds wait = {})
      : RunDirectory(std::move(path), Lock::kTake, wait) {}
  // kReplace: the lock is a new file in place of the one that another process may hold, which must
  // be known to be fenced (take_over.h).
  enum class Lock : uint8_t { kTake, kReplace };
  RunDirectory(std::string path, Lock lock) : RunDirectory(std::move(path), lock, {}) {}
  ~RunDirectory();  // removes the directory if nothing was written
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  // The path that was given, or the place that follow() found.
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string checkpoint(uint64_t step) const;
  static std::string name_of(uint64_t step);  // "step-00001000"
  static std::optional<uint64_t> step_of(const std::string& name);
  static std::string path_of(uint64_t step);  // "checkpoints/step-00001000"

  // Steps of the checkpoints, rising. The checkpoints may be damaged.
  std::vector<uint64_t> checkpoints() const;
  bool has_checkpoint(uint64_t step) const;

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

  // The place of the directory if it is not at path() any more, because it was moved or replaced;
  // empty if it was removed. A path that cannot be looked up (a network disk that fails) is no
  // move.
  std::optional<std::string> moved_to() const;

  // Whether the directory is not at the path that was given, also after follow().
  bool moved() const { return followed_ || moved_to(); }

  // Whether a different process has replaced the lock, and writes the run now (take_over.h).
  bool taken_over() const;

  // A path that leads to the directory also if it is moved while a file is being written; for this
  // process and its children.
  std::string lasting_path() const;

  // Uses the directory where it is now, and warns, if it was moved. path() changes: no other thread
  // may use the directory meanwhile.
  void follow();

 private:
  RunDirectory(std::string path, Lock how, std::chrono::seconds wait);
  // The path by which a file is accessed, as opposed to file(), the path that a user knows.
  std::string at(const std::string& name) const { return lasting_path() + "/" + name; }
  void check_is_run() const;
  void refuse_links() const;
  void lock(std::chrono::seconds wait);
  void replace_lock();
  void name_lock_holder() const;
  void remove_if_unused() const;

  std::string path_;
  bool followed_ = false;
  int directory_fd_ = -1;
  int lock_fd_ = -1;
};

// The step of RUN/last, by its link alone: another process may train in the run. Nothing where
// there is no such link.
std::optional<uint64_t> last_checkpoint(const std::string& path);

// Whether a process trains in the run.
bool is_training(const std::string& path);

// Throws ConfigError when a process trains in the run, and changes nothing.
void check_not_training(const std::string& path);

// Removes a run and all of its files; does nothing when there is none. Throws ConfigError when it
// holds files that are not a run's, or when a process trains in it.
void remove_run(const std::string& path);

}  // namespace reigen
