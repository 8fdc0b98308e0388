#include "dist/launch/hosts/program_copy.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/hash.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTarBlock = 512;

// The header of a file in a tar stream (POSIX ustar): fields at fixed places, numbers in octal.
std::string tar_header(const std::string& name, size_t size) {
  std::string header(kTarBlock, '\0');
  const auto put = [&](size_t at, const std::string& text) {
    header.replace(at, text.size(), text);
  };
  constexpr size_t kMostName = 100;
  if (name.size() >= kMostName) throw DataError(format("the file name {} is too long", name));
  put(0, name);
  put(100, "0000755");  // mode
  put(108, "0000000");  // owner
  put(116, "0000000");  // group
  put(124, format("{:011o}", size));
  put(136, "00000000000");  // time
  put(148, "        ");     // the checksum counts as blanks in itself
  put(156, "0");            // a regular file
  put(257, "ustar");
  put(263, "00");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, format("{:06o}", sum));
  header[154] = '\0';
  return header;
}

}  // namespace

ProgramCopy::ProgramCopy(const OwnProgram& program) {
  constexpr size_t kDigits = 16;
  if (!program.launched) {
    parts_.push_back({.file = program.file});
    name_ = "reigen-" + sha256_of_file(program.file).substr(0, kDigits);
    return;
  }
  // The launcher and the folder that it reads; where they were unpacked may be shared with others.
  parts_.push_back({.file = program.path, .name = "bin/reigen"});
  const fs::path folder = fs::path(program.path).parent_path().parent_path() / "lib/reigen";
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    parts_.push_back(
        {.file = entry.path(), .name = "lib/reigen/" + entry.path().filename().string()});
  }
  std::sort(parts_.begin(), parts_.end(),
            [](const Part& a, const Part& b) { return a.name < b.name; });
  Sha256 sum;
  for (Part& part : parts_) {
    part.size = fs::file_size(part.file);
    const std::string line = part.name + " " + sha256_of_file(part.file) + "\n";
    sum.update(line.data(), line.size());
  }
  name_ = "reigen-" + sum.hex().substr(0, kDigits);
}

std::string ProgramCopy::path() const {
  return format("\"$HOME/.cache/reigen/{}{}\"", name_, is_tree() ? "/bin/reigen" : "");
}

std::string ProgramCopy::receive() const {
  const char* const store = is_tree() ? "mkdir \"$f.$$\" && tar -xf - -C \"$f.$$\""
                                      : "cat >\"$f.$$\" && chmod 755 \"$f.$$\"";
  return format(
      "d=\"$HOME/.cache/reigen\"; f=\"$d/{}\"; mkdir -p \"$d\" && "
      "if [ ! -x {} ]; then {} && mv \"$f.$$\" \"$f\"; fi",
      name_, path(), store);
}

std::string ProgramCopy::Stream::next() {
  constexpr size_t kMost = size_t{1} << 20;
  if (ended_) return "";
  if (!file_.is_open()) {
    if (at_ == copy_.parts_.size()) {
      ended_ = true;
      return copy_.is_tree() ? std::string(2 * kTarBlock, '\0') : "";
    }
    const Part& part = copy_.parts_[at_];
    file_.open(part.file, std::ios::binary);
    if (!file_) throw DataError(format("cannot read {}", part.file));
    if (copy_.is_tree()) return tar_header(part.name, part.size);
  }
  std::string block(kMost, '\0');
  file_.read(block.data(), static_cast<std::streamsize>(block.size()));
  block.resize(static_cast<size_t>(file_.gcount()));
  if (!block.empty() && file_) return block;
  // The last block of a file; in a tar stream it is filled up.
  file_.close();
  file_.clear();
  const size_t size = copy_.parts_[at_].size;
  ++at_;
  if (copy_.is_tree()) block.append((kTarBlock - size % kTarBlock) % kTarBlock, '\0');
  return block.empty() ? next() : block;
}

}  // namespace reigen
