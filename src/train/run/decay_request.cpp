#include "train/run/decay_request.h"

#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "base/format.h"
#include "base/terminal.h"
#include "config/schedule_options.h"

namespace reigen {
namespace {

constexpr uint64_t kMostRequestBytes = 64;

std::string request_file(const std::string& run) { return run + "/" + kDecayRequest; }

}  // namespace

void check_can_decay(const std::string& run, int64_t steps) {
  if (path_exists(run + "/last")) return;
  throw ConfigError(
      format("--decay-now {} needs a run that has begun, and {} has no checkpoint; train it first",
             steps, run));
}

void request_decay(const std::string& run, int64_t steps) {
  const std::string path = request_file(run);
  FileWriter writer(path + ".new");
  writer.write(format("{}\n", steps));
  writer.close();
  std::error_code error;
  std::filesystem::rename(path + ".new", path, error);
  if (error) throw IoError(format("{}: cannot write: {}", path, error.message()));
}

uint64_t decay_request(const std::string& run) {
  const std::string path = request_file(run);
  if (!path_exists(path)) return 0;
  try {
    std::string text = read_file(path, kMostRequestBytes);
    while (text.ends_with('\n')) text.pop_back();
    return static_cast<uint64_t>(parse_integer(text, 1, kMaxSteps));
  } catch (const Error& e) {
    log_warning(format("{}: not a request for a decay, and removed: {}", path, e.what()));
    remove_decay_request(run);
    return 0;
  }
}

void remove_decay_request(const std::string& run) {
  std::error_code ignored;
  std::filesystem::remove(request_file(run), ignored);
}

}  // namespace reigen
