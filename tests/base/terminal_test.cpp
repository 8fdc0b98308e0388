// Terminal output, with stdout and stderr captured or closed.
#include "base/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/interrupt.h"

namespace reigen {
namespace {

using testing::internal::CaptureStderr;
using testing::internal::CaptureStdout;
using testing::internal::GetCapturedStderr;
using testing::internal::GetCapturedStdout;

TEST(Table, AlignsTheFirstColumnLeftAndNumbersRight) {
  Table table;
  table.row({"corpus", "pairs", "share"});
  table.row({"news", "1,000", "5.0%"});
  table.row({"a", "9", "95.0%"});
  EXPECT_EQ(table.text(),
            "  corpus  pairs  share\n"
            "  news    1,000   5.0%\n"
            "  a           9  95.0%\n");
}

TEST(Table, CountsCharactersAndNotBytes) {
  Table table;
  table.row({"Größe", "ä"});
  table.row({"size", "10"});
  table.row({"大きさ", "1"});
  EXPECT_EQ(table.text(""),
            "Größe   ä\n"
            "size   10\n"
            "大きさ     1\n");
}

TEST(Table, HasNoTrailingSpaces) {
  Table table;
  table.row({"a", "long cell"});
  table.row({"longer"});
  table.row({"b", ""});
  table.row({""});
  EXPECT_EQ(table.text("> "),
            "> a       long cell\n"
            "> longer\n"
            "> b\n"
            ">\n");
}

TEST(Table, WithoutRowsIsEmpty) { EXPECT_EQ(Table().text(), ""); }

TEST(DisplayWidth, CountsEachCharacterOnce) {
  EXPECT_EQ(display_width(""), 0u);
  EXPECT_EQ(display_width("size"), 4u);
  EXPECT_EQ(display_width("Größe"), 5u);
  EXPECT_EQ(display_width("🙂"), 1u);
}

TEST(Print, WritesToStandardOutputAtOnce) {
  CaptureStdout();
  print("result\n");
  EXPECT_EQ(GetCapturedStdout(), "result\n");
}

TEST(Print, LeavesBytesForAFileAsTheyAre) {
  CaptureStdout();
  print("a\x1b[2J\xff\n");
  EXPECT_EQ(GetCapturedStdout(), "a\x1b[2J\xff\n");
}

TEST(Log, IsEscapedInAFileAndInTheCopy) {
  std::string copied;
  set_log_copy([&](std::string_view line) { copied += std::string(line) + "|"; });
  CaptureStderr();
  log_warning("a\x1b[2J");
  log_from("vm\x07", "warning: b\xff");
  set_log_copy({});
  EXPECT_EQ(GetCapturedStderr(), "warning: a\\x1b[2J\n[vm\\x07] warning: b\\xff\n");
  EXPECT_EQ(copied, "warning: a\\x1b[2J|[vm\\x07] warning: b\\xff|");
}

TEST(Log, TheLimitOfAWaitIsReadFromItsLine) {
  CaptureStderr();
  log_waiting(std::chrono::seconds(90), "for room");
  const std::string line = GetCapturedStderr();
  EXPECT_EQ(line, "waiting: up to 90 s for room\n");
  EXPECT_EQ(waiting_limit(line), std::chrono::seconds(90));
  for (const char* other :
       {"no waiting: up to 90 s for room", "waiting: for room", "waiting: up to -9 s for",
        "waiting: up to 99999999999 s for", "waiting: up to 90", "waiting: up to "}) {
    EXPECT_EQ(waiting_limit(other), std::nullopt) << other;
  }
}

TEST(PrintDeathTest, AFullDiskBehindStandardOutputIsAnIoError) {
  EXPECT_EXIT(
      {
        if (std::freopen("/dev/full", "w", stdout) == nullptr) std::_Exit(1);
        try {
          print("result");
        } catch (const IoError& e) {
          std::fputs(e.what(), stderr);
          std::_Exit(static_cast<int>(e.code()));
        }
        std::_Exit(0);
      },
      testing::ExitedWithCode(7), "standard output: No space left on device");
}

TEST(PrintDeathTest, AClosedPipeBehindStandardOutputIsAnIoError) {
  EXPECT_EXIT(
      {
        catch_interrupts();
        int ends[2];
        if (pipe(ends) != 0 || dup2(ends[1], STDOUT_FILENO) < 0) std::_Exit(1);
        close(ends[0]);
        try {
          print("result");
        } catch (const IoError& e) {
          std::_Exit(static_cast<int>(e.code()));
        }
        std::_Exit(0);
      },
      testing::ExitedWithCode(7), "");
}

// Turns notes on again at the end of the test.
struct Quiet {
  Quiet() { set_quiet(true); }
  ~Quiet() { set_quiet(false); }
};

TEST(Log, GoesToStandardErrorWithItsKind) {
  CaptureStderr();
  log_note("a note");
  log_warning("look out");
  log_error("too late");
  std::string text = GetCapturedStderr();
  EXPECT_TRUE(text.starts_with("a note\n")) << text;
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "warning:", text);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, " look out\n", text);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "error:", text);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, " too late\n", text);
}

TEST(Log, QuietSilencesNotesButNeverWarningsOrErrors) {
  Quiet quiet;
  CaptureStderr();
  log_note("a note");
  log_warning("look out");
  log_error("too late");
  std::string text = GetCapturedStderr();
  EXPECT_PRED_FORMAT2(testing::IsNotSubstring, "a note", text);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "look out", text);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "too late", text);
}

std::string shown_while_half_done(std::chrono::milliseconds length) {
  CaptureStderr();
  {
    Progress progress("counting", 200, "pairs");
    progress.set(60);
    progress.add(40);
    std::this_thread::sleep_for(length);
  }
  return GetCapturedStderr();
}

TEST(Progress, ShortWorkShowsNothing) {
  EXPECT_EQ(shown_while_half_done(std::chrono::milliseconds(1)), "");
}

TEST(Progress, LongWorkShowsItsProgress) {
  std::string text = shown_while_half_done(std::chrono::milliseconds(1200));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "counting", text);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "50%", text);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "pairs/s", text);
}

TEST(Progress, IsSilentWhenQuiet) {
  Quiet quiet;
  EXPECT_EQ(shown_while_half_done(std::chrono::milliseconds(1200)), "");
}

// Collects the copies of log lines while it exists.
struct LogCopy {
  LogCopy() {
    set_log_copy([this](std::string_view line) { lines.emplace_back(line); });
  }
  ~LogCopy() { set_log_copy(nullptr); }
  std::vector<std::string> lines;
};

TEST(LogCopy, ReceivesEveryLineTaggedAndInOrder) {
  LogCopy copy;
  CaptureStderr();
  log_note("a note");
  log_warning("look out");
  log_error("too late");
  log_copy_only("for the file");
  const std::string text = GetCapturedStderr();
  EXPECT_EQ(copy.lines, (std::vector<std::string>{"a note", "warning: look out", "error: too late",
                                                  "for the file"}));
  EXPECT_PRED_FORMAT2(testing::IsNotSubstring, "for the file", text);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "a note\n", text);
}

TEST(LogCopy, ReceivesNotesEvenWhenQuiet) {
  Quiet quiet;
  LogCopy copy;
  CaptureStderr();
  log_note("a note");
  log_copy_only("for the file");
  EXPECT_EQ(GetCapturedStderr(), "");
  EXPECT_EQ(copy.lines, (std::vector<std::string>{"a note", "for the file"}));
}

TEST(LogCopy, EndsWhenItIsRemoved) {
  std::vector<std::string> seen;
  CaptureStderr();
  {
    LogCopy copy;
    log_note("during");
    seen = copy.lines;
  }
  log_note("after");
  log_copy_only("without a copy");
  EXPECT_EQ(GetCapturedStderr(), "during\nafter\n");
  EXPECT_EQ(seen, std::vector<std::string>{"during"});
}

TEST(LogCopy, ReceivesWholeLinesFromManyThreads) {
  LogCopy copy;
  CaptureStderr();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 50; ++i) log_note(std::string(20, static_cast<char>('a' + t)));
    });
  }
  for (auto& thread : threads) thread.join();
  GetCapturedStderr();
  ASSERT_EQ(copy.lines.size(), 200u);
  for (const auto& line : copy.lines) EXPECT_EQ(line, std::string(20, line[0]));
}

TEST(Status, IsNotShownWithoutATerminal) {
  CaptureStderr();
  show_status("step 7");
  log_note("a note");
  show_status("");
  EXPECT_EQ(GetCapturedStderr(), "a note\n");
}

// Exits with 0 if a terminal of `columns` shows exactly `expected` after `work`. Needs its own
// process, because a process checks only once whether it has a terminal.
template <class Work>
[[noreturn]] void exit_showing(unsigned short columns, Work work, const std::string& expected) {
  setenv("NO_COLOR", "1", 1);
  const winsize size = {.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  int ends[2];
  const int before = dup(STDERR_FILENO);
  if (openpty(&ends[0], &ends[1], nullptr, nullptr, &size) != 0) std::_Exit(2);
  if (dup2(ends[1], STDERR_FILENO) < 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) std::_Exit(2);
  work();
  std::string shown;
  char buffer[512];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
    shown.append(buffer, static_cast<size_t>(got));
  }
  dup2(before, STDERR_FILENO);
  if (shown == expected) std::_Exit(0);
  std::fprintf(stderr, "shown: %s\n", testing::PrintToString(shown).c_str());
  std::_Exit(1);
}

const std::string kClear = "\r\x1b[K";

class StatusDeathTest : public testing::Test {
 protected:
  StatusDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }  // a fresh process
};

TEST_F(StatusDeathTest, IsTheLastLineOfATerminalAndIsRedrawnBelowALogLine) {
  auto work = [] {
    show_status("step 7");
    log_note("a note");
    log_copy_only("for the file");
    show_status("step 8");
  };
  EXPECT_EXIT(
      exit_showing(80, work, kClear + "step 7" + kClear + "a note\r\nstep 7" + kClear + "step 8"),
      testing::ExitedWithCode(0), "");
}

TEST_F(StatusDeathTest, IsRemovedByAnEmptyText) {
  auto work = [] {
    show_status("step 7");
    show_status("");
    log_note("a note");
  };
  EXPECT_EXIT(exit_showing(80, work, kClear + "step 7" + kClear + "a note\r\n"),
              testing::ExitedWithCode(0), "");
}

TEST_F(StatusDeathTest, IsCutToTheWidthOfTheTerminal) {
  EXPECT_EXIT(exit_showing(
                  7, [] { show_status("step 7 of 1000"); }, kClear + "step 7"),
              testing::ExitedWithCode(0), "");
}

TEST_F(StatusDeathTest, TextFromOutsideIsEscapedAndOnlyOurTagsAreColoured) {
  auto work = [] {
    unsetenv("NO_COLOR");
    log_warning("a\x1b[2Jb");
    log_from("1", "error: c\x1b[0m");
    log_from("1", "\x1b[31merror: d");
    show_status("e\x1b[2J\n");
  };
  EXPECT_EXIT(exit_showing(80, work,
                           "\x1b[33mwarning:\x1b[0m a\\x1b[2Jb\r\n"
                           "[1] \x1b[31merror:\x1b[0m c\\x1b[0m\r\n"
                           "[1] \\x1b[31merror: d\r\n" +
                               kClear + "e\\x1b[2J\\x0a"),
              testing::ExitedWithCode(0), "");
}

TEST_F(StatusDeathTest, IsNotShownWhenQuiet) {
  auto work = [] {
    set_quiet(true);
    show_status("step 7");
  };
  EXPECT_EXIT(exit_showing(80, work, ""), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace reigen
