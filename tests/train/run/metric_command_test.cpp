// Commands that score translations: their output, and their failures.
#include "train/run/metric_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/file/files.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

TEST(ParseMetrics, TakesNamesAndValuesInOrder) {
  EXPECT_EQ(parse_metrics("COMET 0.75\nter-neg\t-60.5\r\n x.1  1e2 \n"),
            (Spans{{"COMET", 0.75}, {"ter-neg", -60.5}, {"x.1", 100}}));
  EXPECT_EQ(parse_metrics("COMET 1"), (Spans{{"COMET", 1}}));
}

TEST(ParseMetrics, LeavesOutAllElse) {
  EXPECT_EQ(parse_metrics("score: 3\nCOMET\nCOMET 0.7 0.8\n5 6\nloss 1\nbleu 2\na/b 1\nnan nan\n"
                          "inf inf\nx 1z\n\n" +
                          std::string(33, 'x') + " 1\n"),
            Spans{});
  EXPECT_EQ(parse_metrics("a 1\na 2\nb 3\n"), (Spans{{"a", 1}, {"b", 3}}));
  std::string many;
  for (int i = 0; i < 100; ++i) many += "m" + std::to_string(i) + " 1\n";
  EXPECT_EQ(parse_metrics(many).size(), 16u);
}

class ScoresByCommand : public ::testing::Test {
 protected:
  Spans scores(const std::string& command, double limit = 60) {
    EvalOptions options;
    options.command = command;
    options.command_limit = limit;
    CaptureStderr();
    Spans found =
        scores_by_command(options, dir.path() + "/a metric", {sources, hypotheses, references});
    warning = GetCapturedStderr();
    return found;
  }

  TempDir dir;
  const Lines sources = {"one", "two"};
  const Lines hypotheses = {"eins", "drei"};
  const Lines references = {"eins", "zwei"};
  std::string warning;
};

TEST_F(ScoresByCommand, ReadTheThreeFiles) {
  EXPECT_EQ(scores("paste -d' ' \"$SOURCE\" \"$HYPOTHESIS\" \"$REFERENCE\" | "
                   "awk '$2 == $3 {n++} {lines++; words = words $1} END {print \"same\", n / lines;"
                   " print words, 1}'"),
            (Spans{{"same", 0.5}, {"onetwo", 1}}));
  EXPECT_EQ(warning, "");
}

TEST_F(ScoresByCommand, AFailureIsAWarningWithItsReason) {
  EXPECT_TRUE(scores("echo COMET 1; echo no model >&2; exit 3").empty());
  EXPECT_THAT(warning, HasSubstr("status 3"));
  EXPECT_THAT(warning, HasSubstr("no model"));
  EXPECT_TRUE(scores("echo something else").empty());
  EXPECT_THAT(warning, HasSubstr("something else"));
  EXPECT_TRUE(scores("echo no model >&2 | true").empty());  // a pipe ends as its last command does
  EXPECT_THAT(warning, HasSubstr("no model"));
  EXPECT_TRUE(scores("no-such-program-as-this").empty());
  EXPECT_THAT(warning, HasSubstr("no-such-program-as-this"));
}

TEST_F(ScoresByCommand, ACommandThatDoesNotEndIsStopped) {
  EXPECT_TRUE(scores("sleep 1000 | cat", 0.2).empty());
  EXPECT_THAT(warning, HasSubstr("eval.command-limit"));
}

TEST_F(ScoresByCommand, MuchOutputDoesNotBlockIt) {
  EXPECT_EQ(scores("echo first 1; yes | head -c 3000000; yes | head -c 300000 >&2"),
            (Spans{{"first", 1}}));
}

// The file has holes, so that only its length is large.
TEST_F(ScoresByCommand, EndlessOutputIsNotRead) {
  EXPECT_EQ(scores("echo first 1; truncate -s 1T \"$OUTPUT_OF_METRIC\""), (Spans{{"first", 1}}));
  EXPECT_TRUE(scores("echo no model >&2; truncate -s 1T \"$ERRORS_OF_METRIC\"; exit 1").empty());
}

TEST_F(ScoresByCommand, NoFileOfItIsReachedByALink) {
  const std::string victim = dir.path("victim");
  FileWriter writer(victim);
  writer.write("precious\n");
  writer.close();
  std::filesystem::create_directories(dir.path("a metric"));
  for (const char* name : {"source", "hypothesis", "reference", "output", "errors"}) {
    const std::string link = dir.path("a metric/") + name + ".txt";
    std::filesystem::remove(link);
    std::filesystem::create_symlink(victim, link);
    EXPECT_TRUE(scores("echo first 1; echo error >&2").empty()) << name;
    EXPECT_THAT(warning, HasSubstr(name));
    EXPECT_EQ(read_file(victim), "precious\n") << name;
    std::filesystem::remove(link);
  }
}

TEST_F(ScoresByCommand, TheSecretOfTheJobIsNotInItsEnvironment) {
  setenv("REIGEN_TOKEN", "0123456789abcdef0123456789abcdef", 1);
  EXPECT_EQ(scores("echo set \"${REIGEN_TOKEN+1}\"; echo unset \"${REIGEN_TOKEN-1}\""),
            (Spans{{"unset", 1}}));
  unsetenv("REIGEN_TOKEN");
}

}  // namespace
}  // namespace reigen
