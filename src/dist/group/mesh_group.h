// A group over TCP, carried by the messages of a mesh.
//
// An all-reduce is direct: each rank sends its addend for a chunk to the owner of that chunk, who
// adds them in the order of ranks and sends the sum to all. That is the traffic of a ring, 2(n-1)/n
// of the data each way, in two hops instead of 2(n-1), and nothing is rounded in between. Where
// every machine has the same number of ranks, several each, those sum among themselves first, and
// each byte of the data crosses between machines once.
#pragma once

#include <memory>

#include "dist/group/group.h"
#include "dist/mesh/mesh.h"

namespace reigen {

// Connects to all other ranks, who must call this with the same forming id, size and epoch.
// `encrypted` becomes the number of connections that are encrypted.
std::unique_ptr<Group> make_mesh_group(const MeshOptions& options, int64_t epoch, int& encrypted);

}  // namespace reigen
