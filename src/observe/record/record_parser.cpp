#include "observe/record/record_parser.h"

#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "observe/record/record_reader.h"
#include "observe/record/simdjson_value.h"

namespace reigen {

struct RecordParser::Simdjson {
  simdjson::dom::parser parser;

  std::optional<Record> parse(std::string_view line) {
    simdjson::dom::element element;
    if (parser.parse(line.data(), line.size()).get(element) != simdjson::SUCCESS) {
      return std::nullopt;
    }
    try {
      return read_record(SimdjsonValue(element));
    } catch (const DataError&) {
      return std::nullopt;
    }
  }
};

RecordParser::RecordParser() : simdjson_(std::make_unique<Simdjson>()) {}
RecordParser::~RecordParser() = default;

Record RecordParser::parse(std::string_view line, const std::string& path, uint64_t number) {
  if (std::optional<Record> record = simdjson_->parse(line)) return std::move(*record);
  Json json;
  try {
    json = parse_json(line, path);
  } catch (const DataError&) {
    throw DataError(format("{}:{}: is not valid JSON; the file is damaged", path, number));
  }
  try {
    return record_from_json(json);
  } catch (const DataError& e) {
    throw DataError(format("{}:{}: {}", path, number, e.what()));
  }
}

}  // namespace reigen
