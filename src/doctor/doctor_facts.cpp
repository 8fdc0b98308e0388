#include "doctor/doctor_facts.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/clock.h"
#include "base/machine.h"

namespace reigen {
namespace {

// Bytes per second of reading shards from the disk, past the page cache.
double disk_rate(const std::string& directory, const Manifest& manifest) {
  constexpr size_t kMost = 64 << 20;
  constexpr size_t kLeast = 1 << 20;
  constexpr size_t kBlock = 128 << 10;
  constexpr double kLongest = 2;       // seconds
  constexpr double kLongEnough = 0.5;  // seconds, for a slow disk with little data
  size_t total = 0;
  double seconds = 0;
  // O_DIRECT bypasses the page cache, where the file system supports it.
  constexpr size_t kAlignment = 4096;
  const std::unique_ptr<void, void (*)(void*)> buffer(std::aligned_alloc(kAlignment, kBlock),
                                                      &std::free);
  for (const auto& file : manifest.files()) {
    if (!file.file.ends_with(".shard") || total >= kMost || seconds > kLongest) continue;
    const std::string path = directory + "/" + file.file;
    int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (fd < 0) fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    Stopwatch watch;
    ssize_t got = 0;
    const double before = seconds;
    while (total < kMost && seconds < kLongest && (got = read(fd, buffer.get(), kBlock)) > 0) {
      total += static_cast<size_t>(got);
      seconds = before + watch.seconds();
    }
    close(fd);
  }
  const bool enough = total >= kLeast || seconds >= kLongEnough;
  return !enough ? 0 : static_cast<double>(total) / std::max(seconds, 1e-6);
}

WorkerFacts facts_from(const Json& json) {
  WorkerFacts f;
  f.rank = json.at("rank");
  f.host = json.at("host");
  f.cores = json.at("cores");
  f.threads = json.at("threads");
  f.memory = json.at("memory_bytes");
  f.disk_rate = json.at("disk_bytes_per_second");
  f.device = json.at("device");
  f.interface = json.at("interface");
  f.interface_note = json.at("interface_note");
  f.speed = json.at("claimed_mbit");
  return f;
}

}  // namespace

std::vector<WorkerFacts> gather_facts(Job& job, const OpenedDevice& opened,
                                      const TrainingData& data, const std::string& directory) {
  WorkerFacts mine;
  mine.rank = job.rank();
  mine.host = host_name();
  mine.cores = usable_cores();
  mine.threads = opened.device.threads();
  mine.memory = available_memory();
  mine.disk_rate = disk_rate(directory, data.manifest);
  mine.device = describe(opened);
  if (!job.alone()) {
    mine.interface = job.membership()->interface().name;
    mine.interface_note = job.membership()->interface_note();
    mine.speed = job.membership()->interface().speed;
  }
  std::vector<WorkerFacts> all;
  for (const std::string& text : job.gather(one_line(to_json(mine)))) {
    all.push_back(facts_from(Json::parse(text)));
  }
  return all;
}

}  // namespace reigen
