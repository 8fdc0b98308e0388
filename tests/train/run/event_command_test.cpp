#include "train/run/event_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/file/files.h"
#include "base/format.h"
#include "base/terminal.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class EventCommandTest : public ::testing::Test {
 protected:
  EventCommandTest() {
    set_log_copy([this](std::string_view line) { log_ += std::string(line) + "\n"; });
  }
  ~EventCommandTest() override { set_log_copy({}); }

  // Appends what it gets to a file.
  EventOptions appending() const {
    return {.command = format(
                "echo \"$REIGEN_EVENT $REIGEN_EVENT_STEP $REIGEN_EVENT_MESSAGE\" >> {}", file()),
            .run = folder_.path()};
  }
  std::string file() const { return folder_.path() + "/events"; }
  std::string events() const { return path_exists(file()) ? read_file(file()) : ""; }

  TempDir folder_;
  std::string log_;
};

TEST_F(EventCommandTest, TheCommandGetsEventStepAndMessage) {
  { EventCommand(appending()).raise(RunEvent::kDiverged, 17, "the loss is\nnot finite"); }
  EXPECT_THAT(events(), HasSubstr("diverged 17 the loss is"));
  EXPECT_EQ(events().find('\n'), events().size() - 1);  // a message is one line
  EXPECT_THAT(log_, IsEmpty());
}

TEST_F(EventCommandTest, RaisingDoesNotWaitForTheCommand) {
  EventOptions options = appending();
  options.command = format("read line < {}/pipe; ", folder_.path()) + options.command;
  ASSERT_EQ(system(format("mkfifo {}/pipe", folder_.path()).c_str()), 0);
  EventCommand command(options);
  command.raise(RunEvent::kFinished, 1, "");
  EXPECT_THAT(events(), IsEmpty());  // the command cannot have ended
  ASSERT_EQ(system(format("echo x > {}/pipe", folder_.path()).c_str()), 0);
}

TEST_F(EventCommandTest, AFailureIsLoggedWithItsLastLine) {
  {
    EventCommand({.command = "echo no mail here >&2; exit 3", .run = "r"})
        .raise(RunEvent::kFinished, 1, "");
  }
  EXPECT_THAT(log_, HasSubstr("status 3 for the event finished: no mail here"));
}

TEST_F(EventCommandTest, ACommandThatTakesTooLongIsEnded) {
  {
    EventCommand({.command = "sleep 1000", .run = "r", .limit = 0.1})
        .raise(RunEvent::kFinished, 1, "");
  }
  EXPECT_THAT(log_, HasSubstr("was stopped after"));
}

TEST_F(EventCommandTest, MuchOutputDoesNotBlockTheCommand) {
  {
    EventCommand({.command = "yes | head -c 1000000; exit 4", .run = "r"})
        .raise(RunEvent::kFinished, 1, "");
  }
  EXPECT_THAT(log_, HasSubstr("status 4"));
}

TEST_F(EventCommandTest, AStallIsReportedOnceUntilTheNextProgress) {
  EventOptions options = appending();
  options.stalled_after = 0.2;
  EventCommand command(options);
  const auto wait_for = [&](size_t lines) {
    for (int i = 0; i < 2000; ++i) {
      const std::string now = events();
      if (static_cast<size_t>(std::count(now.begin(), now.end(), '\n')) >= lines) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  };
  command.progress(5);
  wait_for(1);
  EXPECT_THAT(events(), HasSubstr("stalled 5 no step, evaluation or checkpoint"));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const std::string once = events();
  EXPECT_EQ(std::count(once.begin(), once.end(), '\n'), 1);
  command.progress(6);
  wait_for(2);
  EXPECT_THAT(events(), HasSubstr("stalled 6"));
}

TEST_F(EventCommandTest, NothingStallsBeforeTheFirstAndAfterTheLastStep) {
  EventOptions options = appending();
  options.stalled_after = 0.05;
  EventCommand command(options);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  command.progress(1);
  command.rest();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_THAT(events(), IsEmpty());
}

// What reaches the command from outside.
class OnEvent : public ::testing::Test {
 protected:
  std::string told(const std::string& message) {
    const std::string path = dir_.path("told");
    {
      EventCommand events({.command = "env > '" + path + "'", .run = dir_.path("run")});
      events.raise(RunEvent::kLostWorker, 7, message);
    }
    return path_exists(path) ? read_file(path) : "";
  }

  TempDir dir_;
};

TEST_F(OnEvent, AMessageIsOneLineWithoutControlCharacters) {
  const std::string text = told("lost\nREIGEN_EVENT=finished\x1b[2J");
  EXPECT_THAT(text, HasSubstr("REIGEN_EVENT=lost-worker\n"));
  EXPECT_THAT(text, HasSubstr("REIGEN_EVENT_MESSAGE=lost\\x0aREIGEN_EVENT=finished\\x1b[2J\n"));
}

// Linux starts no process with a variable of more than 128 KB.
TEST_F(OnEvent, AMessageOfAnyLengthArrives) {
  EXPECT_THAT(told("lost " + std::string(200'000, '\x1b')),
              HasSubstr("REIGEN_EVENT_MESSAGE=lost \\x1b"));
}

TEST_F(OnEvent, TheSecretsOfTheJobAreNotInTheEnvironment) {
  for (const char* name : {"REIGEN_TOKEN", "REIGEN_DASHBOARD_TOKEN"})
    setenv(name, "secret text", 1);
  EXPECT_THAT(told("lost"), Not(HasSubstr("secret text")));
  for (const char* name : {"REIGEN_TOKEN", "REIGEN_DASHBOARD_TOKEN"}) unsetenv(name);
}

}  // namespace
}  // namespace reigen
