// Threads that leave signals to the main thread, which alone has a stack for them.
#pragma once

#include <functional>
#include <thread>

namespace reigen {

std::thread thread_without_signals(std::function<void()> work);

}  // namespace reigen
