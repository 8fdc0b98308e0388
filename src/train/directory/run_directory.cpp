#include "train/directory/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/file/files.h"
#include "base/file/own_file.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/terminal.h"
#include "model/checkpoint.h"
#include "train/directory/decay_request.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "step-";
constexpr const char* kLock = ".lock";
constexpr const char* kNewLock = ".lock.new";

[[noreturn]] void throw_io(const std::string& path, int error_number) {
  throw IoError(format("{}: cannot write: {}", path, errno_text(error_number)));
}

// The step in "step-00001000"; false for "step-00001000.partial" and other names.
bool step_of_name(const std::string& name, uint64_t& step) {
  if (!name.starts_with(kPrefix)) return false;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + 5, end, step);
  return error == std::errc() && stop == end && name == RunDirectory::name_of(step);
}

std::optional<uint64_t> step_of_link(const std::string& link) {
  std::error_code error;
  const fs::path to = fs::read_symlink(link, error);
  uint64_t step = 0;
  if (error || !step_of_name(to.filename(), step)) return std::nullopt;
  return step;
}

// Checkpoints are renamed into place when complete and renamed before they are removed, so a
// directory with a manifest is a checkpoint; a missing file in it is damage, to be reported.
bool has_manifest(const fs::path& path) { return path_exists(path / "manifest.json"); }

constexpr const char* kRemoved = ".removed";

// Renames first, so that a crash leaves no directory that looks like a checkpoint.
void remove_checkpoint(const fs::path& path) {
  const fs::path aside = path.string() + kRemoved;
  std::error_code error;
  fs::remove_all(aside, error);
  fs::rename(path, aside, error);
  fs::remove_all(error ? path : aside, error);
}

// The content of a lock file: the process that has the lock, or had it last.
bool is_process_number(std::string_view text) {
  return text.find_first_not_of("0123456789") == std::string_view::npos;
}

// A remnant of a crash while a checkpoint was written or removed.
bool is_leftover(const std::string& name) {
  if (!name.starts_with(kPrefix)) return false;
  return name.ends_with(kRemoved) || name.ends_with(".partial") || name.ends_with(".partial.lock");
}

[[noreturn]] void throw_locked(const std::string& path, int lock_fd) {
  const std::string owner = lock_text(lock_fd);
  ::close(lock_fd);
  throw ConfigError(format(
      "{}: reigen{} is already training this run; wait for it to end or choose a different --run",
      path, owner.empty() ? "" : format(" (process {})", owner)));
}

}  // namespace

std::string RunDirectory::name_of(uint64_t step) { return format("{}{:08}", kPrefix, step); }

std::optional<uint64_t> RunDirectory::step_of(const std::string& name) {
  uint64_t step = 0;
  return step_of_name(name, step) ? std::optional(step) : std::nullopt;
}

std::string RunDirectory::path_of(uint64_t step) { return "checkpoints/" + name_of(step); }

RunDirectory::RunDirectory(std::string path, Lock how, std::chrono::seconds wait)
    : path_(std::move(path)) {
  while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) throw_io(path_, error.value());
  check_is_run();
  refuse_links();
  if (how == Lock::kTake) lock(wait);
  if (how == Lock::kReplace) replace_lock();
  directory_fd_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  fs::create_directories(file("checkpoints"), error);
  if (error) throw_io(file("checkpoints"), error.value());
  for (const auto& entry : fs::directory_iterator(file("checkpoints"))) {
    if (is_leftover(entry.path().filename())) fs::remove_all(entry.path(), error);
  }
}

RunDirectory::~RunDirectory() {
  if (!moved_to()) remove_if_unused();
  if (directory_fd_ >= 0) ::close(directory_fd_);
  ::close(lock_fd_);
}

std::optional<std::string> RunDirectory::moved_to() const {
  struct stat named = {};
  struct stat opened = {};
  if (fstat(directory_fd_, &opened) != 0) return std::nullopt;
  if (stat(path_.c_str(), &named) == 0) {
    if (named.st_dev == opened.st_dev && named.st_ino == opened.st_ino) return std::nullopt;
  } else if (errno != ENOENT && errno != ENOTDIR) {
    return std::nullopt;
  }
  if (opened.st_nlink == 0) return "";
  std::error_code error;
  const fs::path place = fs::read_symlink(format("/proc/self/fd/{}", directory_fd_), error);
  return error ? "" : place.string();
}

bool RunDirectory::taken_over() const {
  struct stat present = {};
  struct stat own = {};
  if (stat(at(kLock).c_str(), &present) != 0 || fstat(lock_fd_, &own) != 0) return false;
  return present.st_dev != own.st_dev || present.st_ino != own.st_ino;
}

std::string RunDirectory::lasting_path() const {
  const std::string path = format("/proc/{}/fd/{}", getpid(), directory_fd_);
  return is_directory(path) ? path : path_;
}

void RunDirectory::follow() {
  const std::optional<std::string> place = moved_to();
  if (!place || place->empty()) return;
  log_warning(
      format("the run directory {} was moved to {} while the run trained; everything is "
             "written there",
             path_, *place));
  path_ = *place;
  followed_ = true;
}

// An attempt that failed before its first file leaves no directory.
void RunDirectory::remove_if_unused() const {
  std::error_code error;
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(path_, error)) ++files;
  constexpr size_t kOwn = 2;  // the lock and the folder of checkpoints
  if (error || files != kOwn || !fs::remove(file("checkpoints"), error)) return;
  fs::remove(file(kLock), error);
  fs::remove(path_, error);
}

void RunDirectory::check_is_run() const {
  if (path_exists(file("config.yaml"))) return;
  static constexpr std::array kOurs = {kLock,
                                       kNewLock,
                                       "run-id",
                                       "run-id.new",
                                       "log.txt",
                                       "checkpoints",
                                       "console.log",
                                       "background.json",
                                       "config.yaml.new",
                                       "dashboard.url",
                                       "dashboard.url.new",
                                       "background.json.new",
                                       kDecayRequest,
                                       "decay-now.new"};
  for (const auto& entry : fs::directory_iterator(path_)) {
    const std::string name = entry.path().filename();
    const bool numbered = (name.starts_with("algorithms-") && name.ends_with(".txt")) ||
                          (name.starts_with("timeline-") && name.ends_with(".json")) ||
                          name.starts_with("best-") || name.starts_with(".best-");
    if (!numbered && std::find(kOurs.begin(), kOurs.end(), name) == kOurs.end()) {
      throw ConfigError(format(
          "{}: contains {} and is not a run of reigen; choose a different --run", path_, name));
    }
  }
}

// All files of a run are written below these, and checkpoints replace or remove those of their
// name: a link in a run from elsewhere leads anywhere.
void RunDirectory::refuse_links() const {
  std::error_code ignored;
  std::vector<std::string> paths = {file("checkpoints"), file("measurements"), file("tensorboard"),
                                    file("metric")};
  if (!fs::is_symlink(fs::symlink_status(paths.front(), ignored))) {
    for (const auto& entry : fs::directory_iterator(paths.front(), ignored)) {
      uint64_t step = 0;
      if (step_of_name(entry.path().filename(), step)) paths.push_back(entry.path());
    }
  }
  for (const std::string& path : paths) {
    if (!fs::is_symlink(fs::symlink_status(path, ignored))) continue;
    throw ConfigError(format(
        "{}: is a symbolic link, which is not followed here; replace it by a directory", path));
  }
}

void RunDirectory::lock(std::chrono::seconds wait) {
  constexpr std::chrono::milliseconds kTick{100};
  const std::string path = file(kLock);
  const Stopwatch waited;
  lock_fd_ = open_lock_file(path, is_process_number);
  while (!take_lock(lock_fd_, path)) {
    if (waited.seconds() >= static_cast<double>(wait.count())) throw_locked(path_, lock_fd_);
    ::close(lock_fd_);
    check_interrupt();
    std::this_thread::sleep_for(kTick);
    lock_fd_ = open_lock_file(path, is_process_number);
  }
  name_lock_holder();
}

void RunDirectory::replace_lock() {
  const std::string aside = file(kNewLock);
  unlink(aside.c_str());
  lock_fd_ = open_lock_file(aside, is_process_number);
  if (!take_lock(lock_fd_, aside)) throw_locked(path_, lock_fd_);
  name_lock_holder();
  if (rename(aside.c_str(), file(kLock).c_str()) != 0) throw_io(file(kLock), errno);
}

void RunDirectory::name_lock_holder() const {
  const std::string owner = std::to_string(getpid());
  if (ftruncate(lock_fd_, 0) != 0 || pwrite(lock_fd_, owner.data(), owner.size(), 0) < 0) {
    // Without it, a message lacks the process number; the lock works.
  }
}

std::string RunDirectory::checkpoint(uint64_t step) const { return file(path_of(step)); }

bool RunDirectory::has_checkpoint(uint64_t step) const { return is_checkpoint(at(path_of(step))); }

std::vector<uint64_t> RunDirectory::checkpoints() const {
  std::vector<uint64_t> steps;
  std::error_code error;
  const fs::directory_iterator entries(at("checkpoints"), error);
  if (error && error != std::errc::no_such_file_or_directory) {
    throw IoError(format("{}: cannot read: {}", file("checkpoints"), error.message()));
  }
  for (const auto& entry : entries) {
    uint64_t step = 0;
    if (step_of_name(entry.path().filename(), step) && has_manifest(entry.path())) {
      steps.push_back(step);
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void RunDirectory::link(const std::string& name, uint64_t step) const {
  const std::string to = path_of(step);
  const std::string link = at(name);
  const std::string aside = at("." + name + ".new");
  unlink(aside.c_str());
  if (symlink(to.c_str(), aside.c_str()) != 0) throw_io(file("." + name + ".new"), errno);
  if (rename(aside.c_str(), link.c_str()) == 0) return;
  // A run that was copied without its links has copies of checkpoints in their place.
  const int error_number = errno;  // is_checkpoint() changes it
  if (error_number != EISDIR || !is_checkpoint(link)) throw_io(file(name), error_number);
  remove_checkpoint(link);
  if (rename(aside.c_str(), link.c_str()) != 0) throw_io(file(name), errno);
}

std::optional<uint64_t> RunDirectory::linked(const std::string& name) const {
  return step_of_link(at(name));
}

void RunDirectory::prune(uint64_t newest, size_t keep, const std::vector<uint64_t>& needed) const {
  std::vector<uint64_t> steps = checkpoints();
  std::erase_if(steps, [&](uint64_t step) { return step > newest; });
  if (steps.size() <= keep) return;
  steps.resize(steps.size() - keep);
  for (uint64_t step : steps) {
    if (std::find(needed.begin(), needed.end(), step) == needed.end()) {
      remove_checkpoint(at(path_of(step)));
    }
  }
}

void RunDirectory::set_aside(uint64_t step) const {
  std::error_code ignored;
  const std::string aside = checkpoint(step) + ".damaged";
  fs::remove_all(aside, ignored);
  fs::rename(checkpoint(step), aside, ignored);
}

void RunDirectory::write(const std::string& name, const std::string& text) const {
  const std::string place = moved_to().value_or(path_);
  const std::string final_path = (place.empty() ? path_ : place) + "/" + name;
  const std::string aside = final_path + ".new";
  FileWriter writer(aside);
  writer.write(text);
  writer.close();
  if (rename(aside.c_str(), final_path.c_str()) != 0) throw_io(final_path, errno);
}

std::optional<uint64_t> last_checkpoint(const std::string& path) {
  return step_of_link(path + "/last");
}

bool is_training(const std::string& path) {
  const std::string lock = path + "/" + kLock;
  const int fd = open(lock.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return false;
  const bool locked = flock(fd, LOCK_SH | LOCK_NB) != 0;
  ::close(fd);
  return locked;
}

void check_not_training(const std::string& path) {
  const std::string lock = path + "/" + kLock;
  const int fd = open(lock.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  if (flock(fd, LOCK_SH | LOCK_NB) != 0) throw_locked(path, fd);
  ::close(fd);
}

void remove_run(const std::string& path) {
  if (!path_exists(path)) return;
  static constexpr std::array kOurs = {kLock,
                                       kNewLock,
                                       "run-id",
                                       "run-id.new",
                                       "log.txt",
                                       "config.yaml",
                                       "checkpoints",
                                       "last",
                                       "algorithms.txt",
                                       kDecayRequest,
                                       "decay-now.new",
                                       "console.log",
                                       "background.json",
                                       "background.json.new",
                                       "dashboard.url",
                                       "dashboard.url.new",
                                       "metric",
                                       "tensorboard",
                                       "measurements",
                                       "report.html",
                                       "report.json",
                                       "config.yaml.new",
                                       ".last.new"};
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename();
    const bool numbered = (name.starts_with("algorithms-") && name.ends_with(".txt")) ||
                          (name.starts_with("timeline-") && name.ends_with(".json"));
    if (!numbered && std::find(kOurs.begin(), kOurs.end(), name) == kOurs.end()) {
      throw ConfigError(format(
          "{}: contains {}, which is not a file of a run; move it elsewhere first", path, name));
    }
  }
  const RunDirectory locked(path);  // no process trains in it
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw_io(path, error.value());
}

}  // namespace reigen
