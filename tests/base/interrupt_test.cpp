// Signals, each tested in its own process because the flag cannot be reset.
#include "base/interrupt.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "base/error.h"
#include "base/leave_request.h"

namespace reigen {
namespace {

// Exits with the error's exit code, or 0 if there is no error.
[[noreturn]] void exit_as_the_program_would() {
  try {
    check_interrupt();
  } catch (const Interrupted& e) {
    std::_Exit(static_cast<int>(e.code()));
  }
  std::_Exit(0);
}

TEST(InterruptDeathTest, CheckInterruptDoesNothingBeforeASignal) {
  EXPECT_EXIT(
      {
        catch_interrupts();
        if (interrupt_requested()) std::_Exit(1);
        exit_as_the_program_would();
      },
      testing::ExitedWithCode(0), "");
}

TEST(InterruptDeathTest, CtrlCThrowsInterruptedSoThatWorkCanCleanUp) {
  EXPECT_EXIT(
      {
        catch_interrupts();
        std::raise(SIGINT);
        if (!interrupt_requested()) std::_Exit(1);
        exit_as_the_program_would();
      },
      testing::ExitedWithCode(130), "");
}

TEST(InterruptDeathTest, SigtermThrowsInterruptedToo) {
  EXPECT_EXIT(
      {
        catch_interrupts();
        std::raise(SIGTERM);
        exit_as_the_program_would();
      },
      testing::ExitedWithCode(130), "");
}

TEST(InterruptDeathTest, SigtermConcernsThisProcessAloneAndCtrlCTheWholeJob) {
  EXPECT_EXIT(
      {
        catch_interrupts();
        if (only_this_process_is_to_end()) std::_Exit(1);
        std::raise(SIGTERM);
        if (!only_this_process_is_to_end()) std::_Exit(2);
        std::raise(SIGINT);
        std::_Exit(only_this_process_is_to_end() ? 3 : 0);
      },
      testing::ExitedWithCode(0), "");
}

TEST(InterruptDeathTest, SignalsWithinTwoSecondsAreOneRequest) {
  EXPECT_EXIT(
      {
        catch_interrupts();
        for (int i = 0; i < 100; ++i) std::raise(i % 2 == 0 ? SIGTERM : SIGINT);
        exit_as_the_program_would();
      },
      testing::ExitedWithCode(130), "");
}

TEST(InterruptDeathTest, SignalHandlersRunOnTheAlternateStack) {
  EXPECT_EXIT(
      {
        catch_interrupts();
        struct sigaction action = {};
        sigaction(SIGTERM, nullptr, &action);
        stack_t stack = {};
        sigaltstack(nullptr, &stack);
        const bool own = (action.sa_flags & SA_ONSTACK) != 0 && (stack.ss_flags & SS_DISABLE) == 0;
        std::_Exit(own ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(InterruptDeathTest, ASecondSignalSecondsLaterEndsTheProcessAtOnce) {
  EXPECT_EXIT(
      {
        catch_interrupts();
        std::raise(SIGINT);
        sleep(3);
        std::raise(SIGINT);
        std::_Exit(0);
      },
      testing::KilledBySignal(SIGINT), "");
}

TEST(InterruptDeathTest, ASecondSignalOfADifferentKindEndsTheProcessToo) {
  EXPECT_EXIT(
      {
        catch_interrupts();
        std::raise(SIGINT);
        sleep(3);
        std::raise(SIGTERM);
        std::_Exit(0);
      },
      testing::KilledBySignal(SIGTERM), "");
}

TEST(InterruptDeathTest, AClosedPipeIsAWriteErrorAndNotASilentEnd) {
  EXPECT_EXIT(
      {
        catch_interrupts();
        int ends[2];
        if (pipe(ends) != 0) std::_Exit(1);
        close(ends[0]);
        ssize_t put = write(ends[1], "x", 1);
        std::_Exit(put < 0 && errno == EPIPE ? 0 : 2);
      },
      testing::ExitedWithCode(0), "");
}

TEST(InterruptDeathTest, SighupStopsWorkUnlessItIsIgnored) {
  EXPECT_EXIT(
      {
        std::signal(SIGHUP, SIG_DFL);
        catch_interrupts();
        std::raise(SIGHUP);
        exit_as_the_program_would();
      },
      testing::ExitedWithCode(130), "");
  EXPECT_EXIT(
      {
        std::signal(SIGHUP, SIG_DFL);
        catch_interrupts();
        ignore_hangup();
        std::raise(SIGHUP);
        std::raise(SIGHUP);
        exit_as_the_program_would();
      },
      testing::ExitedWithCode(0), "");
}

TEST(InterruptDeathTest, IgnoringSighupDoesNotAffectCtrlC) {
  EXPECT_EXIT(
      {
        catch_interrupts();
        ignore_hangup();
        std::raise(SIGHUP);
        std::raise(SIGINT);
        exit_as_the_program_would();
      },
      testing::ExitedWithCode(130), "");
}

TEST(InterruptDeathTest, SighupStaysIgnoredUnderNohup) {
  EXPECT_EXIT(
      {
        std::signal(SIGHUP, SIG_IGN);
        catch_interrupts();
        std::raise(SIGHUP);
        exit_as_the_program_would();
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace reigen
