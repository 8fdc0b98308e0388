// simdjson and nlohmann-json read every line alike, damaged ones included.
#include "observe/record/record_parser.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "observe/record/sample_records.h"

namespace reigen {
namespace {

std::vector<Record> kinds() {
  StepRecord several = sample_step(7);
  several.communication = CommunicationTimes{0.5, 0.25, 0.3, 0.4, 1000, 10};
  several.loss_scale = 1024;
  several.skipped = true;
  SpansRecord spans{.step = 9, .time = 12.5, .steps = 4, .seconds = 1.25};
  spans.spans = {{"forward", 0.5}, {"communication", 0.25}};
  spans.communication = {0.1, 0.05, 0.1, 0.2, 77, 3};
  SampleRecord sample{.step = 3, .time = 99, .seconds = 1, .host = "ho\"st\n\xc3\xa9"};
  sample.cores = {0, 99, 12};
  sample.memory_used = UINT64_MAX;
  sample.interfaces = {{"lo", 1, 2, 0, false}, {"eth0", 1e9, 3, 125'000'000, true}};
  SampleRecord with_gpus = sample;
  with_gpus.gpus = {{"GPU \\ 0", 98, 1, 2, 300, 1500}};
  return {sample_start(0, 1), sample_step(1), several, sample_evaluation(5),
          CheckpointRecord{}, EndRecord{},    spans,   sample,
          with_gpus};
}

// The record that is read, as JSON, or the error.
std::string by_nlohmann(const std::string& line) {
  try {
    return one_line(to_json(record_from_json(Json::parse(line))));
  } catch (const Json::exception&) {
    return "log:1: is not valid JSON; the file is damaged";
  } catch (const DataError& e) {
    return std::string("log:1: ") + e.what();
  }
}

std::string by_parser(RecordParser& parser, const std::string& line) {
  try {
    return one_line(to_json(parser.parse(line, "log", 1)));
  } catch (const DataError& e) {
    return e.what();
  }
}

TEST(RecordParser, ReadsEveryKindOfRecord) {
  RecordParser parser;
  for (const Record& record : kinds()) {
    const std::string line = one_line(to_json(record));
    EXPECT_EQ(by_parser(parser, line), by_nlohmann(line));
    EXPECT_EQ(by_parser(parser, line), line);
  }
}

TEST(RecordParser, ReadsNullAsNaN) {
  RecordParser parser;
  StepRecord step = sample_step(1);
  step.loss = NAN;
  const Record read = parser.parse(one_line(to_json(Record(step))), "log", 1);
  EXPECT_TRUE(std::isnan(std::get<StepRecord>(read).loss));
}

// A thousand damaged lines of each kind: bytes changed, removed or cut off.
TEST(RecordParser, TreatsDamagedLinesAsNlohmannDoes) {
  RecordParser parser;
  std::minstd_rand chance(5);
  for (const Record& record : kinds()) {
    const std::string whole = one_line(to_json(record));
    for (int i = 0; i < 1000; ++i) {
      std::string line = whole;
      const size_t at = chance() % line.size();
      const auto kind = chance() % 3;
      if (kind == 0) line[at] = static_cast<char>(' ' + chance() % 95);
      if (kind == 1) line.erase(at, 1 + chance() % 4);
      if (kind == 2) line.resize(at);
      EXPECT_EQ(by_parser(parser, line), by_nlohmann(line)) << line;
    }
  }
}

}  // namespace
}  // namespace reigen
