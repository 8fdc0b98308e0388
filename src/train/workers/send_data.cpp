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

constexpr size_t kPiece = size_t{8} << 20;  // sent at once

std::string fingerprint_of(const std::string& path) {
  const std::string manifest = path + "/manifest.json";
  return path_exists(manifest) ? sha256_of_file(manifest) : "";
}

// Names and sizes of the files the first worker has.
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

// Whether this worker is the first of its host.
bool writes_for_host(Job& job) {
  const auto& members = job.membership()->control().members();
  const std::string& host = members[static_cast<size_t>(job.rank())].host;
  for (int rank = 0; rank < job.rank(); ++rank) {
    if (members[static_cast<size_t>(rank)].host == host) return false;
  }
  return true;
}

// Sends a file of the first worker to all, who keep it where they are told to (or not at all).
void send_file(Job& job, const std::string& from, uint64_t bytes, const std::string& to,
               Progress* progress) {
  std::ifstream in;
  std::unique_ptr<FileWriter> out;
  if (job.first()) in.open(from, std::ios::binary);
  if (!to.empty()) out = std::make_unique<FileWriter>(to);
  std::vector<std::byte> piece(std::min<uint64_t>(kPiece, bytes));
  for (uint64_t sent = 0; sent < bytes;) {
    const std::span<std::byte> part(piece.data(), std::min<uint64_t>(piece.size(), bytes - sent));
    char* data = reinterpret_cast<char*>(part.data());
    if (job.first()) in.read(data, static_cast<std::streamsize>(part.size()));
    job.check(job.membership()->group().broadcast(part, 0).wait());
    if (out) out->write(data, part.size());
    sent += part.size();
    if (progress != nullptr) progress->add(part.size());
  }
  if (job.first() && !in) throw IoError(format("cannot read {}", from));
  if (out) out->close();
}

}  // namespace

void send_data(Job& job, const std::string& path) {
  if (job.alone()) return;
  const std::string theirs = job.broadcast(job.first() ? fingerprint_of(path) : "");
  const bool missing = fingerprint_of(path) != theirs;
  double wanted[] = {missing ? 1.0 : 0.0};
  job.sum(wanted);
  if (wanted[0] == 0) return;
  const bool write = missing && writes_for_host(job);
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
  double done[] = {0};
  job.sum(done);  // nobody opens it before it is whole
  if (fingerprint_of(path) != theirs) {
    throw DataError(format("{}: did not arrive whole; is it the same path on every host?", path));
  }
}

}  // namespace reigen
