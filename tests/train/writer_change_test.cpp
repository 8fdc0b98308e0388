// A worker becomes the writer of a run whose writer was lost, in a directory of its own or not at
// all.
#include "train/writer_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <latch>
#include <thread>

#include "base/file/files.h"
#include "base/terminal.h"
#include "dist/members/job_fixture.h"
#include "observe/record/measurement_log.h"
#include "train/run/take_over.h"
#include "train/small_run.h"

namespace reigen {
namespace {

// Three elastic workers of which each has a disk of its own; that with rank 0 is lost.
class WriterChange : public ::testing::Test {
 protected:
  WriterChange() {
    prepare_small_data(dir.path());
    options = small_train_options(dir.path());
    options.threads = 1;
    set_quiet(true);
  }
  ~WriterChange() override { set_quiet(false); }

  using Survivor = std::function<void(AttemptParts&, int number)>;
  void run_survivors(const Survivor& survivor, const RunPlaces& earlier = {}) {
    RunDirectory run(options.run);
    std::latch prepared(3);
    with_elastic_job(3, [&](Job& job) {
      const int number = job.rank();
      const auto parts = prepare_attempt(options, job.first() ? &run : nullptr, job, "test");
      parts->options.run = path(number);
      parts->run_places.back().path = number == 0 ? options.run : "/of/another/host";
      parts->run_places.insert(parts->run_places.begin(), earlier.begin(), earlier.end());
      claim_writing(*parts);
      prepared.arrive_and_wait();
      if (number == 0) return;
      form_next(*parts);
      survivor(*parts, number);
    });
  }

  std::string path(int number) const {
    return number == 0 ? options.run : dir.path("run-of-" + std::to_string(number));
  }

  // After the loss of a worker, which this one notices first.
  static void form_next(AttemptParts& parts) {
    try {
      while (true) parts.job.barrier();
    } catch (const WorkerLost& lost) {
      parts.job.membership()->form_next(lost.status);
    }
  }

  TempDir dir;
  TrainOptions options;
};

TEST_F(WriterChange, ANewDirectoryNeedsACheckpointAlsoAfterAFurtherLoss) {
  run_survivors([&](AttemptParts& parts, int number) {
    if (number == 2) return;  // lost before it heard of the new directory
    EXPECT_EQ(parts.job.rank(), 0);
    // The group is known to have failed, so that the new writer cannot tell anybody.
    while (parts.job.membership()->group().status().ok()) {
    }
    EXPECT_THROW(change_writer(parts, {}, std::nullopt), WorkerLost);
    ASSERT_NE(parts.writer, nullptr);
    form_next(parts);
    EXPECT_TRUE(change_writer(parts, {}, std::nullopt));
    EXPECT_EQ(parts.writer->run().path(), path(1));
    parts.lacks_checkpoint = false;  // as the loop does with the first checkpoint
    EXPECT_FALSE(change_writer(parts, {}, std::nullopt));
  });
}

TEST_F(WriterChange, ADirectoryOfADifferentNameIsContinuedByAWorkerThatSeesIt) {
  run_survivors([&](AttemptParts& parts, int number) {
    EXPECT_TRUE(change_writer(parts, {}, std::nullopt));
    EXPECT_EQ(parts.run_places.back().path, path(1));
    if (number == 1) return parts.job.leave();
    form_next(parts);
    change_writer(parts, {}, std::nullopt);
    ASSERT_NE(parts.writer, nullptr);
    EXPECT_EQ(parts.writer->run().path(), path(1));
    EXPECT_FALSE(std::filesystem::exists(path(2)));
  });
}

// Worker 2 has a directory that was written before that of worker 0.
TEST_F(WriterChange, AnEarlierDirectoryIsContinuedWhereNoWorkerSeesTheLastOne) {
  WrittenRun earlier;
  {
    const RunDirectory run(path(2));
    run.write("config.yaml", "seed: 1\n");
    MeasurementLog log(path(2), 0, 0);
    for (uint64_t step = 1; step <= 5; ++step) log.append(StepRecord{.step = step});
    earlier = {make_run_id(run), "/of/a/third/host"};
  }
  run_survivors(
      [&](AttemptParts& parts, int number) {
        EXPECT_EQ(parts.job.first(), number == 2);
        parts.state.counters.step = 9;
        EXPECT_TRUE(change_writer(parts, {{.step = 8}, {.step = 9}}, 7));
        EXPECT_EQ(parts.run_places.back(), (WrittenRun{earlier.id, path(2)}));
        EXPECT_EQ(parts.run_places.size(), 2u);
        if (parts.writer) {
          parts.writer->flush();
          EXPECT_EQ(parts.earlier_run, "/of/another/host");  // with steps 6 and 7
          EXPECT_EQ(log_steps(path(2), "step"), (std::vector<uint64_t>{1, 2, 3, 4, 5, 8, 9}));
        }
        parts.job.leave();
      },
      {earlier});
}

TEST_F(WriterChange, ACheckpointThatTheLostWriterHadInMemoryIsDueAgain) {
  for (const bool written : {false, true}) {
    options.run = dir.path(written ? "written" : "run");
    run_survivors([&](AttemptParts& parts, int number) {
      parts.options.run = parts.run_places.back().path = options.run;
      const uint64_t step = 3;
      if (number == 1 && written) {
        const std::string checkpoint = options.run + "/" + RunDirectory::path_of(step);
        std::filesystem::create_directories(checkpoint);
        write_text(checkpoint + "/manifest.json", "{}");
      }
      claim_writing(parts);
      EXPECT_EQ(change_writer(parts, {}, step), !written);
      EXPECT_EQ(parts.lacks_checkpoint, !written);
      parts.job.leave();
    });
  }
}

TEST_F(WriterChange, AWorkerThatCannotWriteGivesWayToAnother) {
  FileWriter file(path(1));  // in place of a directory
  file.close();
  run_survivors([&](AttemptParts& parts, int number) {
    if (number == 1) {
      parts.options.run += "/below/a/file";
      EXPECT_TRUE(parts.job.first());
      EXPECT_THROW(change_writer(parts, {}, std::nullopt), WorkerLost);
      form_next(parts);
    } else if (!parts.job.first()) {  // worker 1 may have given way before this one heard of it
      EXPECT_THROW(change_writer(parts, {}, std::nullopt), WorkerLost);
      form_next(parts);
    }
    EXPECT_EQ(parts.job.rank(), 2 - number);
    EXPECT_TRUE(change_writer(parts, {}, std::nullopt));
    EXPECT_EQ(parts.writer != nullptr, number == 2);
    if (parts.writer) {
      EXPECT_EQ(parts.writer->run().path(), path(2));
    }
    parts.job.leave();
  });
}

TEST_F(WriterChange, WithoutAnyWorkerThatCanWriteItIsTriedAgainUntilTheLimit) {
  for (const bool possible : {true, false}) {
    FileWriter file(path(1));
    file.close();
    options.run = dir.path(possible ? "run" : "another");
    options.checkpoint.wait = possible ? 600 : 0;
    run_survivors([&](AttemptParts& parts, int number) {
      if (number == 2) return;
      parts.options.run += "/below/a/file";
      while (parts.job.membership()->group().status().ok()) {
      }
      EXPECT_THROW(change_writer(parts, {}, std::nullopt), WorkerLost);
      form_next(parts);
      EXPECT_TRUE(parts.job.alone());
      if (!possible) {
        EXPECT_THROW(change_writer(parts, {}, std::nullopt), Error);
        return;
      }
      std::thread operators([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        std::filesystem::remove(path(1));
      });
      EXPECT_TRUE(change_writer(parts, {}, std::nullopt));
      EXPECT_NE(parts.writer, nullptr);
      operators.join();
    });
    std::filesystem::remove_all(path(1));
  }
}

}  // namespace
}  // namespace reigen
