// What a person sees, with stdout and stderr caught or closed.
#include "base/terminal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

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

TEST(Table, LeavesNoSpacesAtTheEndOfALine) {
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

TEST(Table, WithoutRowsIsNoText) { EXPECT_EQ(Table().text(), ""); }

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

// Turns notes back on, whatever happens in the test.
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

TEST(Progress, SaysNothingAboutShortWork) {
  EXPECT_EQ(shown_while_half_done(std::chrono::milliseconds(1)), "");
}

TEST(Progress, SaysHowFarLongWorkHasCome) {
  std::string text = shown_while_half_done(std::chrono::milliseconds(1200));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "counting", text);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "50%", text);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "pairs/s", text);
}

TEST(Progress, IsSilentWhenQuiet) {
  Quiet quiet;
  EXPECT_EQ(shown_while_half_done(std::chrono::milliseconds(1200)), "");
}

}  // namespace
}  // namespace reigen
