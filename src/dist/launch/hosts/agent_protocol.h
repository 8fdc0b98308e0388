// Constants of the protocol between launcher and agent (host_launch.h).
#pragma once

#include <chrono>

namespace reigen {

// Marks the start of the protocol: output of the host's shell before it is ignored.
inline constexpr const char* kAgentGreeting = "\nreigen agent 1\n";

// The interval of the launcher's heartbeats, and the silence after which it counts as lost.
inline constexpr std::chrono::milliseconds kAgentBeat{2'000};
inline constexpr std::chrono::milliseconds kAgentSilence{20'000};

}  // namespace reigen
