// A dataset sent between ranks that are threads of this process, each machine with a path of its
// own.
#include "train/workers/send_data.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/file/files.h"
#include "data/dataset.h"
#include "data/manifest.h"
#include "dist/members/job_fixture.h"
#include "train/small_run.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;

class SendData : public ::testing::Test {
 protected:
  // Two ranks on each of two machines; machine 0 has the dataset.
  std::string path_of(const Job& job) const { return job.rank() < 2 ? data : dir.path("there"); }
  void expect_sent(const std::string& path) const {
    EXPECT_EQ(read_file(path + "/manifest.json"), read_file(data + "/manifest.json"));
    EXPECT_NO_THROW(check_files(path, read_manifest(path)));
  }

  TempDir dir;
  std::string data = prepare_small_data(dir.path());
};

TEST_F(SendData, ReachesAMachineThatLacksIt) {
  with_job(
      4,
      [&](Job& job) {
        send_data(job, path_of(job));
        expect_sent(path_of(job));
      },
      2);
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(dir.path("there"))) ++files;
  size_t expected = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(data)) ++expected;
  EXPECT_EQ(files, expected);
}

TEST_F(SendData, SendsNothingWhereAllMachinesHaveIt) {
  fs::copy(data, dir.path("there"));
  const auto before = fs::last_write_time(dir.path("there/manifest.json"));
  with_job(
      4, [&](Job& job) { send_data(job, path_of(job)); }, 2);
  EXPECT_EQ(fs::last_write_time(dir.path("there/manifest.json")), before);
}

TEST_F(SendData, ASingleWorkerSendsNothing) {
  Job alone;
  EXPECT_NO_THROW(send_data(alone, dir.path("nothing")));
}

}  // namespace
}  // namespace reigen
