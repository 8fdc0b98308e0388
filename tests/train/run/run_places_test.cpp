// What a host has of a run whose writer was lost: directories, and the second copy of a checkpoint.
#include "train/run/run_places.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file/files.h"
#include "observe/record/measurement_log.h"
#include "train/run/take_over.h"
#include "train/small_run.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;

class FindRun : public testing::Test {
 protected:
  // A run directory with a checkpoint and a log up to these steps; 0: none.
  WrittenRun make_run(const std::string& name, uint64_t checkpoint, uint64_t logged) {
    const RunDirectory run(small.dir.path(name));
    run.write("config.yaml", "seed: 1\n");
    if (checkpoint > 0) {
      write_checkpoint(run.checkpoint(checkpoint), checkpoint, "");
      run.link("last", checkpoint);
    }
    MeasurementLog log(run.path(), 0, 0);
    for (uint64_t step = 1; step <= logged; ++step) log.append(StepRecord{.step = step});
    return {make_run_id(run), run.path()};
  }

  void write_checkpoint(const std::string& path, uint64_t step, const std::string& id) {
    const TrainState state = small.state(step);
    CheckpointFacts facts = small.facts(state);
    if (!id.empty()) facts.training[kRunIdInCheckpoint] = id;
    reigen::write_checkpoint(path, facts, small.model.layout(), state.parameters, moments_of(state),
                             small.data.vocabulary);
  }

  std::string make_copy(uint64_t step, const std::string& id) {
    const std::string place = small.dir.path("copy");
    fs::create_directories(place);
    write_checkpoint(place + "/" + RunDirectory::name_of(step), step, id);
    fs::remove(place + "/last");
    fs::create_symlink(RunDirectory::name_of(step), place + "/last");
    return place;
  }

  SmallRun small;
  std::string own = small.dir.path("own");
};

TEST_F(FindRun, ThePlacesOfARunArriveAsTheyWereSent) {
  const RunPlaces places = {{"a", "/x/run"}, {"b", "run \"2\"\n"}};
  EXPECT_EQ(run_places_in(to_text(places)), places);
}

TEST_F(FindRun, ThePresentDirectoryIsSeenByItsIdAtEitherPath) {
  const WrittenRun earlier = make_run("earlier", 0, 3);
  const WrittenRun now = make_run("now", 0, 3);
  EXPECT_EQ(path_of_run({earlier, now}, own), now.path);
  EXPECT_EQ(path_of_run({earlier, {now.id, "/of/another/host"}}, now.path), now.path);
  EXPECT_EQ(path_of_run({earlier, {now.id, "/of/another/host"}}, earlier.path), "");
  EXPECT_EQ(path_of_run({}, now.path), "");
}

TEST_F(FindRun, AnEarlierDirectoryIsACopyUpToItsLastCheckpointAndStep) {
  const WrittenRun old = make_run("old", 20, 25);
  const WrittenRun older = make_run("older", 20, 21);
  const WrittenRun now = {"now", "/of/another/host"};
  const FoundCopy found = newest_copy({older, old, now}, own, "");
  EXPECT_TRUE(found.is_run());
  EXPECT_EQ(found.path, old.path);
  EXPECT_EQ(found.earlier, old);
  EXPECT_EQ(found.copy, (RunCopy{.checkpoint = 20, .logged = 25}));
  // At a path of its own; and not without its id.
  const FoundCopy moved = newest_copy({{old.id, "/elsewhere"}, now}, old.path, "");
  EXPECT_EQ(moved.path, old.path);
  EXPECT_FALSE(newest_copy({{"other", old.path}, now}, old.path, "").is_run());
  EXPECT_EQ(newest_copy({now}, own, "").copy, RunCopy{});
}

TEST_F(FindRun, OfADirectoryAndACopyTheNewerCheckpointCounts) {
  const WrittenRun old = make_run("old", 20, 25);
  const RunPlaces places = {old, {"now", "/of/another/host"}};
  const std::string copy = make_copy(20, "now");
  EXPECT_EQ(newest_copy(places, own, copy).path, old.path);
  make_copy(30, "now");
  for (const std::string& to : {copy, "any-host:" + copy}) {
    const FoundCopy newer = newest_copy(places, own, to);
    EXPECT_FALSE(newer.is_run());
    EXPECT_EQ(newer.copy, (RunCopy{.checkpoint = 30}));
    EXPECT_EQ(newer.path, copy + "/step-00000030");
  }
  EXPECT_EQ(newest_copy(places, own, "command:" + copy).path, old.path);
}

TEST_F(FindRun, ACopyOfADifferentRunIsNone) {
  const RunPlaces places = {{"now", "/of/another/host"}};
  EXPECT_EQ(newest_copy(places, own, make_copy(30, "other")).copy, RunCopy{});
  EXPECT_EQ(newest_copy(places, own, make_copy(40, "")).copy, RunCopy{});
  const std::string copy = make_copy(50, "now");
  EXPECT_EQ(step_of_copy(copy), 50u);
  EXPECT_EQ(newest_copy(places, own, copy).copy.checkpoint, 50u);
  fs::remove(copy + "/step-00000050/manifest.json");
  EXPECT_EQ(newest_copy(places, own, copy).copy, RunCopy{});
}

TEST_F(FindRun, ACopyBecomesTheLastCheckpointOfANewDirectory) {
  const std::string copy = make_copy(30, "now") + "/step-00000030";
  const RunDirectory run(own);
  EXPECT_TRUE(adopt_checkpoint(run, copy, 30));
  EXPECT_EQ(run.linked("last"), 30u);
  EXPECT_EQ(run.checkpoints(), std::vector<uint64_t>{30});
  EXPECT_EQ(read_checkpoint_facts(run.checkpoint(30)).step, 30u);
  // A link in a copy leads anywhere.
  fs::create_symlink("/etc/passwd", copy + "/link");
  EXPECT_FALSE(adopt_checkpoint(run, copy, 31));
  EXPECT_EQ(run.checkpoints(), std::vector<uint64_t>{30});
  EXPECT_EQ(run.linked("last"), 30u);
}

}  // namespace
}  // namespace reigen
