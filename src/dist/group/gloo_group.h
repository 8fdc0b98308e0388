// A group over TCP, carried by Gloo's point-to-point messages.
//
// An all-reduce is direct: each rank sends the owner of a chunk its part, the owner adds the parts
// in the order of ranks and sends everybody the sum. That is the traffic of a ring, 2(n-1)/n of the
// data each way, in two hops instead of 2(n-1), and nothing is rounded in between. Chunks travel in
// pieces, so that sums leave while parts still arrive. Where several ranks share each machine, they
// add up among themselves first, and each part of the data crosses between machines once.
#pragma once

#include <memory>

#include "dist/group/gloo_mesh.h"
#include "dist/group/group.h"

namespace reigen {

// Connects to all others, who must call this with the same prefix, size and epoch.
std::unique_ptr<Group> make_gloo_group(const MeshOptions& options, KeyValue& store, int64_t epoch);

}  // namespace reigen
