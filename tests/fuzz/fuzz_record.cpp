// Lines of a measurement log: any text gives records that are written and read back, and that a
// summary of a run takes in, or a reigen::Error.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "observe/record/record_parser.h"
#include "observe/record/run_summary.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reigen;
  static RecordParser parser;
  RunSummary summary;
  std::string_view lines(reinterpret_cast<const char*>(data), size);
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    Record record;
    try {
      record = parser.parse(line, "rank-0.jsonl", 1);
    } catch (const Error&) {
      continue;
    }
    const std::string written = log_line(record);
    parser.parse(std::string_view(written).substr(0, written.size() - 1), "again", 1);
    summary.add(static_cast<int>(line.size() % 2), record);
  }
  // Ten times the work of a line, so not each time.
  if (size % 16 != 0) return 0;
  if (one_line(RunSummary::from_json(summary.to_json()).to_json()).empty()) std::abort();
  return 0;
}
