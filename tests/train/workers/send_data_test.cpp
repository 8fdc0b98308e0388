// A dataset sent between ranks that are threads of this process, each machine with a path of its
// own.
#include "train/workers/send_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <filesystem>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/json/json.h"
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

// A dataset from elsewhere with a file that never ends, or of another size than recorded: an error
// of rank 0 before any byte of it is sent.
TEST_F(SendData, SendsNoDatasetThatDiffersFromItsManifest) {
  const std::string shard = read_manifest(data).train.front().shards.front().file;
  const std::string path = data + "/" + shard;
  const std::string good = read_file(path);
  const std::string manifest = read_file(data + "/manifest.json");
  const auto expect_refused = [&] {
    std::string error;
    try {
      with_job(
          2,
          [&](Job& job) {
            try {
              send_data(job, job.rank() == 0 ? data : dir.path("there"));
            } catch (const DataError& e) {
              error = format("{} {}", job.rank(), e.what());
              throw;
            }
          },
          1);
      ADD_FAILURE() << "sent";
    } catch (const Error&) {
    }
    EXPECT_THAT(error, testing::AllOf(testing::StartsWith("0 "), testing::HasSubstr(shard)));
    EXPECT_FALSE(path_exists(dir.path("there")));
    fs::remove(path);
  };
  write_text(path, good.substr(0, good.size() - 1));
  expect_refused();
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  expect_refused();
  fs::create_symlink("/dev/zero", path);
  expect_refused();
  write_text(path, good);
  Json larger = Json::parse(manifest);
  larger["train"][0]["shards"][0]["bytes"] = uint64_t{1} << 50;
  write_text(data + "/manifest.json", one_line(larger));
  expect_refused();
}

TEST_F(SendData, ASingleWorkerSendsNothing) {
  Job alone;
  EXPECT_NO_THROW(send_data(alone, dir.path("nothing")));
}

}  // namespace
}  // namespace reigen
