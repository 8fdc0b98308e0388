// Reads an event file for tests, checking lengths and sums with code that the product does not use.
#pragma once

#include <observe/event.pb.h>

#include <string>
#include <vector>

namespace reigen {

// Throws std::runtime_error saying where the file is not a sequence of whole, sound events.
std::vector<event::Event> events_in(const std::string& path);

}  // namespace reigen
