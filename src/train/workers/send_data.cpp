#include "train/workers/send_data.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/files.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/terminal.h"
#include "data/dataset.h"
#include "data/manifest.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSegment = size_t{8} << 20;  // bytes of one broadcast

std::string fingerprint_of(const std::string& path) {
  const std::string manifest = path + "/manifest.json";
  return path_exists(manifest) ? sha256_of_file(manifest) : "";
}

// Names and sizes of the dataset's files.
Json list_files(const std::string& path) {
  Json files = Json::array();
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename();
    if (entry.is_regular_file() && !name.starts_with('.')) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  for (const auto& name : names) {
    files.push_back({{"name", name}, {"bytes", file_size(path + "/" + name)}});
  }
  return files;
}

// Broadcasts rank 0's file `from`; other ranks write it to `to`, or nowhere where that is empty.
void send_file(Job& job, const std::string& from, uint64_t bytes, const std::string& to,
               Progress* progress) {
  std::ifstream in;
  std::unique_ptr<FileWriter> out;
  if (job.first()) in.open(from, std::ios::binary);
  if (!to.empty()) out = std::make_unique<FileWriter>(to);
  std::vector<std::byte> buffer(std::min<uint64_t>(kSegment, bytes));
  for (uint64_t sent = 0; sent < bytes;) {
    const std::span<std::byte> segment(buffer.data(),
                                       std::min<uint64_t>(buffer.size(), bytes - sent));
    char* data = reinterpret_cast<char*>(segment.data());
    if (job.first()) in.read(data, static_cast<std::streamsize>(segment.size()));
    job.broadcast(segment);
    if (out) out->write(data, segment.size());
    sent += segment.size();
    if (progress != nullptr) progress->add(segment.size());
  }
  if (job.first() && !in) throw IoError(format("cannot read {}", from));
  if (out) out->close();
}

}  // namespace

void send_data(Job& job, const std::string& path) {
  if (job.alone()) return;
  const std::string wanted = job.broadcast(job.first() ? fingerprint_of(path) : "");
  const bool missing = fingerprint_of(path) != wanted;
  if (!job.any(missing)) return;
  const bool write = missing && job.first_here();
  const Json files = Json::parse(job.broadcast(job.first() ? one_line(list_files(path)) : ""));
  std::unique_ptr<StagedDirectory> staged;
  if (write) staged = std::make_unique<StagedDirectory>(path, false);
  uint64_t total = 0;
  for (const auto& file : files) total += file.at("bytes").get<uint64_t>();
  Progress progress("send data", total, "bytes");
  for (const auto& file : files) {
    const std::string name = file.at("name");
    send_file(job, path + "/" + name, file.at("bytes"), write ? staged->path() + "/" + name : "",
              job.first() ? &progress : nullptr);
  }
  if (write) {
    staged->commit();
    check_files(path, read_manifest(path));
  }
  job.barrier();  // no rank opens the dataset before it is complete
  if (fingerprint_of(path) != wanted) {
    throw DataError(format(
        "{}: the dataset did not arrive complete; give the same --data path on every host", path));
  }
}

}  // namespace reigen
