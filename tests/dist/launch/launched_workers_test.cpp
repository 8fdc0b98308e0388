// Workers as child processes: their output, their end, and no process left behind.
#include "dist/launch/launched_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "dist/members/parent_pipe.h"
#include "dist/net/message.h"

namespace reigen {
namespace {

using std::chrono::milliseconds;

ChildSpec shell(const std::string& script) {
  ChildSpec spec;
  spec.command = {"sh", "-c", script};
  return spec;
}

struct SeenOutput {
  std::vector<std::string> lines;
  std::vector<std::string> statuses;
  WorkerOutput output() {
    WorkerOutput out;
    out.line = [this](int rank, const std::string& line) {
      lines.push_back(format("{} {}", rank, line));
    };
    out.out_line = [this](int rank, const std::string& line) {
      lines.push_back(format("{} out {}", rank, line));
    };
    out.status = [this](int rank, const std::string& text) {
      statuses.push_back(format("{} {}", rank, text));
    };
    return out;
  }
};

constexpr Grace kShort{.after_failure = milliseconds(200),
                       .others_after_failure = milliseconds(200),
                       .after_stop = milliseconds(200),
                       .longest_wait = std::chrono::hours(3),
                       .after_wait = milliseconds(200),
                       .after_term = milliseconds(200)};

void wait_for_all(LaunchedWorkers& set) {
  while (set.running()) set.attend(milliseconds(10));
}

TEST(LineSplitter, SplitsLinesAndFollowsTheStatusLine) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.add("a"), testing::IsEmpty());
  EXPECT_THAT(splitter.add("b\nc\n"), testing::ElementsAre("ab", "c"));
  EXPECT_THAT(splitter.add("\r\x1b[Kstep 1"), testing::IsEmpty());
  EXPECT_EQ(splitter.status(), "step 1");
  EXPECT_THAT(splitter.add("\r\x1b[Knote\nstep 1"), testing::ElementsAre("note"));
  EXPECT_EQ(splitter.status(), "step 1");
  EXPECT_THAT(splitter.add("\r\x1b[Kstep 2\r\x1b[Kstep 3"), testing::IsEmpty());
  EXPECT_EQ(splitter.status(), "step 3");
  EXPECT_THAT(splitter.rest(), testing::IsEmpty());
  EXPECT_THAT(splitter.add("no end"), testing::IsEmpty());
  EXPECT_THAT(splitter.rest(), testing::ElementsAre("no end"));
}

TEST(LineSplitter, MarksTheContinuationOfALineThatIsCut) {
  LineSplitter splitter;
  const std::string much(70'000, 'a');
  EXPECT_THAT(splitter.add(much), testing::ElementsAre(much));
  EXPECT_THAT(splitter.add("waiting: up to 60 s for room\nnext\n"),
              testing::ElementsAre("... waiting: up to 60 s for room", "next"));
  EXPECT_THAT(splitter.add(much), testing::ElementsAre(much));
  EXPECT_THAT(splitter.add(much), testing::ElementsAre("... " + much));
  EXPECT_THAT(splitter.add("error: no"), testing::IsEmpty());
  EXPECT_THAT(splitter.rest(), testing::ElementsAre("... error: no"));
}

TEST(AllowedWait, IsThatOfRankZeroUpToALimit) {
  const Grace grace{.longest_wait = std::chrono::seconds(90)};
  EXPECT_EQ(allowed_wait(0, "waiting: up to 60 s for room", grace), std::chrono::seconds(60));
  EXPECT_EQ(allowed_wait(0, "waiting: up to 4294967295 s for room", grace),
            std::chrono::seconds(90));
  EXPECT_EQ(allowed_wait(1, "waiting: up to 60 s for room", grace), std::nullopt);
  EXPECT_EQ(allowed_wait(-1, "waiting: up to 60 s for room", grace), std::nullopt);
  EXPECT_EQ(allowed_wait(0, "... waiting: up to 60 s for room", grace), std::nullopt);
}

TEST(ErrorIn, RemovesTheTag) {
  EXPECT_EQ(error_in("error: no space"), "no space");
  EXPECT_EQ(error_in("no error: here"), std::nullopt);
}

TEST(LaunchedWorkers, CollectsLinesOfBothStreams) {
  SeenOutput seen;
  LaunchedWorkers set(seen.output(), kShort);
  set.start(0, shell("echo one; echo two >&2; printf three"));
  set.start(1, shell("echo four >&2"));
  wait_for_all(set);
  EXPECT_THAT(seen.lines,
              testing::UnorderedElementsAre("0 out one", "0 two", "0 out three", "1 four"));
  EXPECT_FALSE(set.failure());
}

TEST(LaunchedWorkers, TheFirstFailureIsReportedAndTheOthersAreEnded) {
  SeenOutput seen;
  LaunchedWorkers set(seen.output(), kShort);
  set.start(0, shell("sleep 100"));
  set.start(1, shell("echo 'error: the disk is full' >&2; exit 7"));
  wait_for_all(set);
  ASSERT_TRUE(set.failure());
  EXPECT_EQ(set.failure()->rank, 1);
  EXPECT_EQ(set.failure()->code, 7);
  EXPECT_EQ(set.failure()->error, "the disk is full");
  EXPECT_EQ(set.take_ended().size(), 2u);
}

// The workers of an elastic job send each other these errors, in messages of limited size.
TEST(LaunchedWorkers, AnErrorIsCut) {
  SeenOutput seen;
  LaunchedWorkers set(seen.output(), kShort);
  set.start(0, shell("{ echo -n 'error: it is '; yes long | head -n 10000 | tr -d '\\n'; echo; } "
                     ">&2; exit 7"));
  wait_for_all(set);
  ASSERT_TRUE(set.failure());
  EXPECT_THAT(set.failure()->error, testing::StartsWith("it is longlong"));
  EXPECT_LE(set.failure()->error.size(), 4000u);
}

TEST(LaunchedWorkers, AWorkersOwnFailureIsReportedBeforeTheLossItCaused) {
  SeenOutput seen;
  LaunchedWorkers set(seen.output(), Grace());
  set.start(0, shell("echo 'error: lost rank 1' >&2; exit 5"));
  set.start(1, shell("sleep 0.1; kill -9 $$"));
  set.start(2, shell("sleep 0.2; exit 7"));
  wait_for_all(set);
  ASSERT_TRUE(set.failure());
  EXPECT_EQ(set.failure()->rank, 1);
  EXPECT_EQ(set.failure()->code, 137);
}

TEST(LaunchedWorkers, KillsWorkersThatIgnoreSigtermOrAreStopped) {
  SeenOutput seen;
  LaunchedWorkers set(seen.output(), kShort);
  set.start(0, shell("trap '' TERM INT; while true; do sleep 1; done"));
  set.start(1, shell("kill -STOP $$; sleep 100"));
  set.attend(milliseconds(50));
  set.stop(SIGTERM);
  wait_for_all(set);
  ASSERT_TRUE(set.failure());
}

// With the long times of a user's run: the test would take half a minute if it waited for them.
TEST(LaunchedWorkers, EndsAStoppedWorkerAsSoonAsADifferentOneFails) {
  SeenOutput seen;
  LaunchedWorkers set(seen.output(), {.others_after_failure = std::chrono::minutes(10)});
  set.start(0, shell("sleep 0.3; echo 'error: lost rank 1' >&2; exit 5"));
  set.start(1, shell("kill -STOP $$; sleep 1000"));
  wait_for_all(set);
  ASSERT_TRUE(set.failure());
  EXPECT_EQ(set.failure()->code, 5);
  EXPECT_EQ(set.failure()->rank, 0);
}

TEST(LaunchedWorkers, RankZeroHasMoreTimeAfterAFailureThanTheOthers) {
  SeenOutput seen;
  LaunchedWorkers set(seen.output(), {.after_failure = std::chrono::minutes(10),
                                      .others_after_failure = milliseconds(100)});
  set.start(0, shell("sleep 1000"));
  set.start(1, shell("sleep 1000"));
  set.start(2, shell("sleep 0.1; exit 7"));
  std::vector<int> ended;
  while (ended.size() < 2) {
    set.attend(milliseconds(10));
    for (const WorkerEnd& end : set.take_ended()) ended.push_back(end.rank);
  }
  EXPECT_THAT(ended, testing::ElementsAre(2, 1));
}

TEST(LaunchedWorkers, AWorkerThatWaitsHasTheTimeThatItNames) {
  for (const bool allowed : {true, false}) {
    SeenOutput seen;
    LaunchedWorkers set(seen.output(), kShort);
    set.start(0, shell("echo 'waiting: up to 60 s for room' >&2; sleep 1; echo saved >&2"));
    set.start(1, shell("sleep 0.1; exit 7"));
    while (!set.failure() || seen.lines.empty()) set.attend(milliseconds(10));
    if (!allowed) set.end_waits();
    wait_for_all(set);
    EXPECT_EQ(seen.lines.size(), allowed ? 2u : 1u);
  }
}

TEST(LaunchedWorkers, NoOtherRankMayWaitAndNoneBeyondTheLimit) {
  const char* waits = "echo 'waiting: up to 60 s for room' >&2; sleep 2; echo saved >&2";
  for (const int waiting : {0, 1}) {
    Grace grace = kShort;
    if (waiting == 0) grace.longest_wait = milliseconds(0);
    SeenOutput seen;
    LaunchedWorkers set(seen.output(), grace);
    set.start(waiting, shell(waits));
    set.start(1 - waiting, shell("sleep 0.1; exit 7"));
    wait_for_all(set);
    EXPECT_EQ(seen.lines.size(), 1u) << waiting;
  }
}

// Neither a failure nor a stop is needed: the others of a finished run have ended by then.
TEST(LaunchedWorkers, EndsAWorkerThatHangsAfterItsWait) {
  for (const char* hangs : {"trap '' TERM; while true; do sleep 1; done", "kill -STOP $$"}) {
    SeenOutput seen;
    LaunchedWorkers set(seen.output(), kShort);
    set.start(0, shell(format("echo 'waiting: up to 0 s for room' >&2; {}", hangs)));
    set.start(1, shell("exit 0"));
    wait_for_all(set);
    ASSERT_TRUE(set.failure()) << hangs;
    EXPECT_EQ(set.failure()->rank, 0);
    EXPECT_GT(set.failure()->code, 128) << hangs;
  }
}

TEST(LaunchedWorkers, AStopEndsAWait) {
  SeenOutput seen;
  LaunchedWorkers set(seen.output(), kShort);
  set.start(0, shell("trap '' TERM; echo 'waiting: up to 9999 s for room' >&2; sleep 9999"));
  while (seen.lines.empty()) set.attend(milliseconds(10));
  set.stop(SIGTERM);
  wait_for_all(set);
  ASSERT_TRUE(set.failure());
  EXPECT_EQ(set.failure()->code, 137);
}

TEST(LaunchedWorkers, NamesTheSignalThatKilledAWorker) {
  SeenOutput seen;
  LaunchedWorkers set(seen.output(), kShort);
  set.start(3, shell("kill -9 $$"));
  wait_for_all(set);
  ASSERT_TRUE(set.failure());
  EXPECT_EQ(set.failure()->code, 137);
  EXPECT_EQ(set.failure()->error, "was killed by signal 9 (Killed)");
}

TEST(LaunchedWorkers, ProcessesStartedByAWorkerEndWithIt) {
  SeenOutput seen;
  {
    LaunchedWorkers set(seen.output(), kShort);
    set.start(0, shell("sleep 1000 & echo $! >&2"));
    wait_for_all(set);
  }
  ASSERT_EQ(seen.lines.size(), 1u);
  const pid_t left = std::stoi(seen.lines[0].substr(2));
  for (int i = 0; i < 1000 && kill(left, 0) == 0; ++i) std::this_thread::sleep_for(milliseconds(1));
  // Reparented by now: it has ended, or is a zombie.
  std::ifstream stat(format("/proc/{}/stat", left));
  std::string text;
  std::getline(stat, text);
  EXPECT_TRUE(text.empty() || text.find(") Z ") != std::string::npos) << text;
}

TEST(ChildProcess, DiesWithItsParent) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    ChildSpec spec = shell("sleep 1000");
    ChildProcess child(spec);
    const pid_t pid = child.pid();
    if (write(ends[1], &pid, sizeof pid) < 0) _exit(1);
    kill(getpid(), SIGKILL);
  }
  pid_t child = 0;
  ASSERT_EQ(read(ends[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  waitpid(parent, nullptr, 0);
  const auto alive = [&] {
    std::ifstream stat(format("/proc/{}/stat", child));
    std::string text;
    std::getline(stat, text);
    return !text.empty() && text.find(") Z ") == std::string::npos;
  };
  for (int i = 0; i < 2000 && alive(); ++i) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_FALSE(alive());
}

TEST(ChildProcess, AMissingExecutableIsAnError) {
  ChildSpec spec;
  spec.command = {"/no/such/program"};
  EXPECT_THROW(ChildProcess child(spec), IoError);
}

// Shell workers that write a record to their pipe, as a worker does before its first step. They are
// worker 1; worker 0 is the writer as long as it is a member.
ChildSpec elastic_shell(const std::string& then,
                        const std::vector<WorkerId>& members = {{0, 4}, {1, 5}}) {
  const Json record =
      record_message({1, 5}, {.formed = {.epoch = 0, .id = "first", .members = members}});
  const std::string bytes = encode_message(record);
  std::string length;
  for (const char byte : bytes.substr(0, 4)) {
    length += format("\\{:03o}", static_cast<unsigned>(static_cast<unsigned char>(byte)));
  }
  ChildSpec spec;  // sh may know no descriptors above 9
  spec.command = {"bash", "-c", "printf '" + length + "%s' \"$BODY\" >&$REIGEN_AGENT_FD; " + then};
  spec.environment.push_back("BODY=" + bytes.substr(4));
  return spec;
}

ChildSpec elastic_writer(const std::string& then) { return elastic_shell(then, {{1, 5}}); }

TEST(LaunchedWorkers, OfAnElasticJobContinueWithAProofWhenOneEnds) {
  LaunchedWorkers set({}, kShort);
  set.set_elastic();
  set.start(0, elastic_writer("sleep 1; exit 0"));
  set.start(1, elastic_shell("kill -9 $$"));
  wait_for_all(set);
  EXPECT_FALSE(set.failure());
  const std::vector<Json> proofs = set.take_proofs();
  ASSERT_EQ(proofs.size(), 2u);  // one for each
  EXPECT_EQ(proofs[0]["kind"], "ended");
  EXPECT_EQ(proofs[0]["worker"]["number"], 1);
  EXPECT_EQ(proofs[0]["record"]["formed"]["id"], "first");
  EXPECT_THAT(proofs[0]["why"].get<std::string>(), testing::HasSubstr("signal 9"));
}

TEST(LaunchedWorkers, OfAnElasticJobAskTheWitness) {
  const std::string question = R"({"kind":"may_continue","membership":"first"})";
  LaunchedWorkers set({}, kShort);
  set.set_elastic();
  ChildSpec spec;
  spec.command = {"bash", "-c",
                  format("printf '\\000\\000\\000\\{:o}{}' >&$REIGEN_AGENT_FD; "
                         "read -r -N 1 answer <&$REIGEN_AGENT_FD; exit 3",
                         question.size(), question)};
  set.start(0, spec);
  std::vector<Json> asked;
  while (set.running()) {
    set.attend(std::chrono::milliseconds(20));
    for (const Json& one : set.take_questions()) {
      asked.push_back(one);
      set.tell({{"kind", "witness"}});
    }
  }
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0]["membership"], "first");
}

TEST(LaunchedWorkers, OfAnElasticJobHaveFailedWhenNoneSucceeded) {
  LaunchedWorkers set({}, kShort);
  set.set_elastic();
  set.start(0, shell("exit 5"));
  set.start(1, shell("exit 7"));
  wait_for_all(set);
  ASSERT_TRUE(set.failure());
  EXPECT_TRUE(set.take_proofs().empty());  // no worker had a membership
}

TEST(LaunchedWorkers, OfAnElasticJobThatAreStoppedEndWithTheRun) {
  LaunchedWorkers set({}, kShort);
  set.set_elastic();
  set.start(0, shell("kill -STOP $$"));
  set.start(1, elastic_writer("sleep 0.2; exit 0"));
  wait_for_all(set);
  EXPECT_FALSE(set.failure());
}

// The others end when the last step is done; the writer still writes the checkpoint of it.
TEST(LaunchedWorkers, OfAnElasticJobHaveFailedWhenItsWriterFailsAfterTheOthersEnded) {
  LaunchedWorkers set({}, kShort);
  set.set_elastic();
  set.start(0, elastic_writer("sleep 0.5; echo 'error: the disk is full' >&2; exit 7"));
  set.start(1, elastic_shell("exit 0"));
  set.start(2, elastic_shell("kill -9 $$"));  // an earlier loss, from which they recovered
  wait_for_all(set);
  ASSERT_TRUE(set.failure());
  EXPECT_EQ(set.failure()->rank, 0);
  EXPECT_EQ(set.failure()->code, 7);
  EXPECT_EQ(set.failure()->error, "the disk is full");
}

TEST(LaunchedWorkers, OfAnElasticJobWaitForASlowWriter) {
  LaunchedWorkers set({}, kShort);  // any limit would end it
  set.set_elastic();
  set.start(0, elastic_writer("sleep 1.5; exit 0"));
  set.start(1, elastic_shell("exit 0"));
  wait_for_all(set);
  EXPECT_FALSE(set.failure());
  for (const WorkerEnd& end : set.take_ended()) EXPECT_EQ(end.code, 0) << end.rank;
}

// A worker that is started while the others train.
TEST(LaunchedWorkers, AJoinerThatFailsBeforeItJoinsDisturbsNobody) {
  LaunchedWorkers set({}, kShort);
  set.set_elastic();
  set.start(0, elastic_writer("sleep 1; exit 0"));
  set.start_joiner(1, shell("echo 'error: no dataset' >&2; exit 3"));
  wait_for_all(set);
  EXPECT_FALSE(set.failure());
  const std::vector<WorkerEnd> ended = set.take_ended();
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended[0].rank, 1);
  EXPECT_EQ(ended[0].code, 3);
  EXPECT_EQ(ended[0].error, "no dataset");
  EXPECT_TRUE(ended[0].never_joined());
  EXPECT_EQ(ended[1].code, 0);
  EXPECT_FALSE(ended[1].never_joined());
}

TEST(LaunchedWorkers, AJoinerThatCannotBeStartedHasEnded) {
  LaunchedWorkers set({}, kShort);
  set.set_elastic();
  ChildSpec spec;
  spec.command = {"/no/such/program"};
  set.start_joiner(2, spec);
  EXPECT_FALSE(set.running());
  const std::vector<WorkerEnd> ended = set.take_ended();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].rank, 2);
  EXPECT_EQ(ended[0].code, 5);
  EXPECT_TRUE(ended[0].never_joined());
}

TEST(LaunchedWorkers, AJoinerHasItsOwnNumberFromItsFirstMembershipOn) {
  SeenOutput seen;
  LaunchedWorkers set(seen.output(), kShort);
  set.set_elastic();
  // It becomes worker 1 of the job.
  set.start_joiner(7, shell("echo asks >&2; sleep 0.1"));
  set.start_joiner(8, elastic_shell("sleep 0.3; echo trains >&2; kill -9 $$"));
  wait_for_all(set);
  EXPECT_THAT(seen.lines, testing::ElementsAre("7 asks", "1 trains"));
  const std::vector<WorkerEnd> ended = set.take_ended();
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended[1].rank, 8);
  EXPECT_EQ(ended[1].number, 1);
  ASSERT_TRUE(set.failure());
  EXPECT_EQ(set.failure()->rank, 8);
}

TEST(LaunchedWorkers, AJoinerThatStillWaitsEndsWithTheJob) {
  LaunchedWorkers set({}, Grace());  // which would give it two minutes
  set.set_elastic();
  set.start(0, elastic_writer("sleep 0.3; exit 0"));
  set.start_joiner(1, shell("trap 'exit 130' TERM; while true; do sleep 0.01; done"));
  EXPECT_TRUE(set.members_run());
  wait_for_all(set);
  EXPECT_FALSE(set.members_run());
  EXPECT_TRUE(set.ends());
  EXPECT_FALSE(set.failure());
}

}  // namespace
}  // namespace reigen
