#include "train/run/take_over.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/hash.h"
#include "observe/record/log_reader.h"
#include "observe/record/measurement_log.h"
#include "observe/record/record_parser.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRunId = "run-id";
constexpr uint64_t kMostRunIdBytes = 64;  // it is sent to the other workers

std::string read_run_id(const std::string& path) {
  std::string id = read_own_file(path + "/" + kRunId, kMostRunIdBytes);
  if (id.ends_with('\n')) id.pop_back();
  return id;
}

// The complete lines of a log in a new file of the same name.
void replace_log(const std::string& path) {
  const std::string aside = path + ".partial";
  {
    FileWriter writer(aside);
    LogLineReader reader(path);
    std::string_view line;
    while (reader.next(line)) {
      writer.write(line);
      writer.write("\n");
    }
    writer.close();
  }
  if (rename(aside.c_str(), path.c_str()) != 0) {
    throw IoError(format("{}: cannot be replaced: {}", path, errno_text(errno)));
  }
}

}  // namespace

std::string make_run_id(const RunDirectory& run) {
  constexpr size_t kBytes = 16;
  if (path_exists(run.file(kRunId))) return read_run_id(run.path());
  std::string id = random_hex(kBytes);
  run.write(kRunId, id + "\n");
  return id;
}

std::string run_id_of(const std::string& path) {
  try {
    return read_run_id(path);
  } catch (const Error&) {
    return "";
  }
}

bool sees_run(const std::string& path, const std::string& id) {
  return !id.empty() && run_id_of(path) == id && access(path.c_str(), W_OK) == 0;
}

std::unique_ptr<RunDirectory> take_over_run(const std::string& path) {
  auto run = std::make_unique<RunDirectory>(path, RunDirectory::Lock::kReplace);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run->file("measurements"), ignored)) {
    if (entry.path().extension() == ".jsonl") replace_log(entry.path());
  }
  if (path_exists(run->file("log.txt"))) replace_log(run->file("log.txt"));
  return run;
}

uint64_t last_logged_step(const std::string& run) {
  const std::string path = MeasurementLog::path_of(run, 0);
  if (!path_exists(path)) return 0;
  LogLineReader reader(path);
  std::string_view line;
  std::string last;
  while (reader.next(line)) {
    if (line.starts_with(line_start<StepRecord>())) last = line;
  }
  if (last.empty()) return 0;
  return step_of(RecordParser().parse(last, path, reader.number()));
}

}  // namespace reigen
