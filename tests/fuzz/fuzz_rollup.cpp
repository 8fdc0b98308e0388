// rollup.json: any text gives a summary that more steps and samples can be added to, or a
// reigen::Error.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "observe/record/run_summary.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reigen;
  try {
    const Json json = parse_json({reinterpret_cast<const char*>(data), size}, "rollup.json");
    RunSummary summary = RunSummary::from_json(json);
    StepRecord step;
    for (const uint64_t number : {uint64_t{1}, uint64_t{2}, uint64_t{1} << 40, UINT64_MAX}) {
      step.step = number;
      summary.add(0, step);
    }
    summary.add(1, SampleRecord());
    one_line(summary.to_json());
  } catch (const Error&) {
  }
  return 0;
}
