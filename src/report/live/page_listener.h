// The port of the live page: opened by the process that announces it, served by another.
#pragma once

#include <string>

#include "dist/net/socket.h"

namespace reigen {

// Port 0: 6810, or a free port when that is in use. Throws IoError with the remedy.
Socket listen_for_page(const std::string& address, int port);

}  // namespace reigen
