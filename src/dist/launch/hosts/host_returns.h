// Hosts of an elastic job to which the connection ended. With --restarts they are asked again,
// after pauses that grow. A host has returned when it answers with the same version and the workers
// that ran there have certainly ended: those of an elastic job outlive the connection, and a place
// must not have two.
#pragma once

#include <string>

#include "dist/launch/hosts/host_connections.h"

namespace reigen {

class HostReturns {
 public:
  explicit HostReturns(HostConnections& connections) : connections_(connections) {}

  // The connection to the host has ended.
  void lose(RemoteHost& host, const std::string& why);
  // Asks a lost host when that is due, and reads its answer. True once the host has returned.
  bool attend(RemoteHost& host);

 private:
  bool has_returned(RemoteHost& host);

  HostConnections& connections_;
};

}  // namespace reigen
