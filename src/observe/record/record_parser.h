// Lines of a log to records, fast enough for runs with gigabytes of logs.
//
// simdjson parses each line. A line that it refuses, or that is no record, is parsed once more by
// nlohmann-json, so that damage is reported as in all other JSON files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "observe/record/records.h"

namespace reigen {

class RecordParser {
 public:
  RecordParser();
  ~RecordParser();
  RecordParser(const RecordParser&) = delete;
  RecordParser& operator=(const RecordParser&) = delete;

  // Throws DataError that names the file and line when `line` is no record. For one thread.
  Record parse(std::string_view line, const std::string& path, uint64_t number);

 private:
  struct Simdjson;
  std::unique_ptr<Simdjson> simdjson_;
};

}  // namespace reigen
