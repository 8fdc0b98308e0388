// Threads that leave signals to the main thread, which alone has a stack for them.
#pragma once

#include <functional>
#include <thread>

namespace reigen {

std::thread quiet_thread(std::function<void()> work);

}  // namespace reigen
