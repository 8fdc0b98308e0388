#include "train/workers/send_data.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/error.h"
#include "base/file/files.h"
#include "base/file/own_file.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/json/json.h"
#include "base/terminal.h"
#include "data/dataset.h"
#include "data/manifest.h"
#include "dist/net/socket.h"

namespace reigen {
namespace {

constexpr size_t kSegment = size_t{8} << 20;  // bytes of one broadcast

std::string fingerprint_of(const std::string& path) {
  const std::string manifest = path + "/manifest.json";
  return path_exists(manifest) ? sha256_of_file(manifest) : "";
}

std::string sha256_of(const std::string& text) {
  Sha256 digest;
  digest.update(text.data(), text.size());
  return digest.hex();
}

// Name, size and digest of the dataset's files, which have that size: a manifest from elsewhere may
// record any.
Json list_files(const std::string& path) {
  Json files = Json::array();
  const Manifest manifest = read_manifest(path);
  check_files(path, manifest);
  for (const char* name : {"manifest.json", "SHA256SUMS"}) {
    const std::string file = path + "/" + name;
    files.push_back({{"name", name}, {"bytes", file_size(file)}, {"sha256", sha256_of_file(file)}});
  }
  for (const OutputFile& file : manifest.files()) {
    files.push_back({{"name", file.file}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  }
  return files;
}

// Rank 0's list, which the others check: its digest comes over the control channel, and no name
// leads out of the directory.
Json agreed_list(Job& job, const std::string& path) {
  ControlChannel& control = job.membership()->control();
  constexpr const char* kKey = "data/files";
  std::string text = job.first() ? one_line(list_files(path)) : "";
  if (job.first()) control.set(kKey, sha256_of(text));
  text = job.broadcast(text);
  constexpr std::chrono::seconds kWithin{60};
  const auto digest = control.get(kKey, kWithin);
  if (!digest) {
    throw CommError(
        format("--send-data: rank 0 sent no digest of its files within {} s", kWithin.count()));
  }
  if (*digest != sha256_of(text)) {
    throw CommError("--send-data: the list of files was changed on its way from rank 0");
  }
  Json files = Json::parse(text);
  for (const Json& file : files) {
    const std::string name = file.at("name");
    if (name.empty() || name.starts_with('.') || name.find('/') != std::string::npos) {
      throw DataError(format("{}: '{}' is no plain file name; prepare the data again", path, name));
    }
  }
  return files;
}

// Reads exactly `segment` of rank 0's file.
void read_segment(const Socket& file, const std::string& path, std::span<std::byte> segment) {
  for (size_t at = 0; at < segment.size();) {
    const ssize_t got = read(file.fd(), segment.data() + at, segment.size() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw IoError(format("{}: cannot be read: {}", path, errno_text(errno)));
    if (got == 0) throw DataError(format("{}: became shorter while it was sent", path));
    at += static_cast<size_t>(got);
  }
}

// Broadcasts a file of rank 0's directory `from`; other ranks write it into `to`, or nowhere where
// that is empty. Throws CommError if it is not the file of the list.
void send_file(Job& job, const Json& file, const std::string& from, const std::string& to,
               Progress* progress) {
  const std::string name = file.at("name");
  const uint64_t bytes = file.at("bytes");
  const std::string path = from + "/" + name;
  Sha256 digest;
  std::unique_ptr<FileWriter> out;
  const Socket in(job.first() ? open_for_reading(path) : -1);
  if (!to.empty()) out = std::make_unique<FileWriter>(to + "/" + name);
  std::vector<std::byte> buffer(std::min<uint64_t>(kSegment, bytes));
  for (uint64_t sent = 0; sent < bytes;) {
    const std::span<std::byte> segment(buffer.data(),
                                       std::min<uint64_t>(buffer.size(), bytes - sent));
    const char* data = reinterpret_cast<const char*>(segment.data());
    if (job.first()) read_segment(in, path, segment);
    job.broadcast(segment);
    if (out) {
      out->write(data, segment.size());
      digest.update(data, segment.size());
    }
    sent += segment.size();
    if (progress != nullptr) progress->add(segment.size());
  }
  if (!out) return;
  out->close();
  if (digest.hex() != file.at("sha256")) {
    throw CommError(format("--send-data: {} did not arrive as rank 0 has it", name));
  }
}

}  // namespace

void send_data(Job& job, const std::string& path) {
  if (job.alone()) return;
  const std::string wanted = job.broadcast(job.first() ? fingerprint_of(path) : "");
  const bool missing = fingerprint_of(path) != wanted;
  if (!job.any(missing)) return;
  const bool write = missing && job.first_here();
  const Json files = agreed_list(job, path);
  std::unique_ptr<StagedDirectory> staged;
  if (write) staged = std::make_unique<StagedDirectory>(path, false);
  uint64_t total = 0;
  for (const auto& file : files) total += file.at("bytes").get<uint64_t>();
  Progress progress("send data", total, "bytes");
  for (const auto& file : files) {
    send_file(job, file, path, write ? staged->path() : "", job.first() ? &progress : nullptr);
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
