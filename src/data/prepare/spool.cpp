#include "data/prepare/spool.h"

#include <cerrno>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

struct Record {
  uint64_t line;
  uint32_t corpus;
  uint32_t source_bytes;
  uint32_t target_bytes;
  uint32_t unused;
};

}  // namespace

void SpoolWriter::add(uint32_t corpus, uint64_t line, const std::string& source,
                      const std::string& target) {
  Record record = {line, corpus, static_cast<uint32_t>(source.size()),
                   static_cast<uint32_t>(target.size()), 0};
  file_.write(&record, sizeof record);
  file_.write(source);
  file_.write(target);
  ++pairs_;
}

SpoolReader::SpoolReader(const std::string& path)
    : path_(path), file_(std::fopen(path.c_str(), "rbe")) {
  if (file_ == nullptr) throw IoError(format("{}: {}", path, errno_text(errno)));
}

SpoolReader::~SpoolReader() { std::fclose(file_); }

void SpoolReader::read(void* out, size_t size) {
  if (std::fread(out, 1, size, file_) != size) {
    throw IoError(format("{}: the temporary file ends too early", path_));
  }
}

bool SpoolReader::next(SpooledPair& pair) {
  Record record;
  size_t got = std::fread(&record, 1, sizeof record, file_);
  if (got == 0 && std::feof(file_)) return false;
  if (got != sizeof record) throw IoError(format("{}: the temporary file cannot be read", path_));
  pair.corpus = record.corpus;
  pair.line = record.line;
  pair.source.resize(record.source_bytes);
  pair.target.resize(record.target_bytes);
  read(pair.source.data(), pair.source.size());
  read(pair.target.data(), pair.target.size());
  return true;
}

}  // namespace reigen
