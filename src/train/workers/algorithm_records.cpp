#include "train/workers/algorithm_records.h"

#include "base/file/files.h"
#include "base/format.h"
#include "base/json/json.h"
#include "base/terminal.h"
#include "ops/gpu_backend.h"

namespace reigen {
namespace {

std::string name_of(int rank) {
  return rank == 0 ? "algorithms.txt" : format("algorithms-{}.txt", rank);
}

}  // namespace

void record_algorithms(Job& job, const Device& device, RunWriter* writer) {
  const GpuBackend* gpu = gpu_backend(device);
  const std::vector<std::string> records =
      job.gather(gpu != nullptr ? gpu->recorded_algorithms() : "");
  for (size_t rank = 0; writer != nullptr && rank < records.size(); ++rank) {
    if (!records[rank].empty()) writer->write_file(name_of(static_cast<int>(rank)), records[rank]);
  }
}

void replay_algorithms(Job& job, const Device& device, RunWriter* writer,
                       const TrainOptions& options, bool resumed) {
  constexpr uint64_t kMostBytes = 64 << 20;
  Json found = Json::array();
  for (int rank = 0; writer != nullptr && rank < job.size(); ++rank) {
    const std::string own = writer->run().file(name_of(rank));
    const std::string path = resumed && path_exists(own) ? own : options.algorithms;
    found.push_back(path.empty()  ? ""
                    : path == own ? read_own_file(path, kMostBytes)
                                  : read_file(path, kMostBytes));
  }
  found = Json::parse(job.broadcast(one_line(found)));
  GpuBackend* gpu = gpu_backend(device);
  const auto mine = found.at(static_cast<size_t>(job.rank())).get<std::string>();
  if (gpu == nullptr || mine.empty() || gpu->replay_algorithms(mine)) return;
  log_warning(
      "the recorded algorithms belong to a different version of the matrix library or a different "
      "GPU; new ones are chosen, so results differ in rounding");
}

}  // namespace reigen
