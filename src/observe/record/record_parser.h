// Lines of a log to records, fast: the way to open a run of gigabytes. The only door to simdjson.
//
// The three kinds of record that make up nearly all of a log are read without going through a Json.
// Whatever is not exactly as we write it goes through parse_record, which knows what to say about
// it: both give the same for every line.
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

  // As parse_record (observe/log_reader.h). For one thread.
  Record parse(std::string_view line, const std::string& path, uint64_t number);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace reigen
