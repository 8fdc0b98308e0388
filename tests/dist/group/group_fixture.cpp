#include "dist/group/group_fixture.h"

#include <thread>

#include "base/format.h"
#include "base/interrupt.h"
#include "dist/group/gloo_group.h"
#include "dist/group/memory_store.h"
#include "dist/group/single_group.h"

namespace reigen {
namespace {

// Gloo writes to connections that may be closed (gloo_mesh.h).
[[maybe_unused]] const bool g_broken_pipes_ignored = (ignore_broken_pipes(), true);

}  // namespace

void with_group(int size, const std::function<void(Group&)>& body, int64_t epoch,
                std::chrono::milliseconds timeout, int on_each) {
  MemoryStore store;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      MeshOptions options;
      options.rank = rank;
      options.size = size;
      options.address = "127.0.0.1";
      for (int r = 0; r < size; ++r) options.hosts.push_back(format("host{}", r / on_each));
      options.machines = options.hosts;
      options.prefix = format("{}/", epoch);
      options.secret = "secret";
      options.timeout = timeout;
      auto group = size == 1 ? make_single_group(epoch) : make_gloo_group(options, store, epoch);
      body(*group);
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace reigen
