// What launcher and agent (host_launch.h) agree on beside the messages themselves.
#pragma once

#include <chrono>

namespace reigen {

// Before it the shell of a host may say whatever it likes.
inline constexpr const char* kAgentGreeting = "\nreigen agent 1\n";

// The launcher is heard of at least this often, or is gone.
inline constexpr std::chrono::milliseconds kAgentBeat{2'000};
inline constexpr std::chrono::milliseconds kAgentSilence{20'000};

}  // namespace reigen
