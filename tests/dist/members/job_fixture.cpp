#include "dist/members/job_fixture.h"

#include <exception>
#include <mutex>
#include <thread>

#include "base/format.h"

namespace reigen {

namespace {

using std::chrono::milliseconds;

void for_ranks(int size, int on_each, bool elastic, const std::function<void(Job&)>& body) {
  Socket listener = listen_on("127.0.0.1", 0);
  const Endpoint at{"127.0.0.1", port_of(listener)};
  std::mutex mutex;
  std::exception_ptr first_error;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        MembershipOptions options;
        options.rank = rank;
        options.size = size;
        options.rendezvous = {at};
        if (rank == 0) options.listener = std::move(listener);
        options.token = "token";
        options.host = format("host{}", rank / on_each);
        options.silence = milliseconds(elastic ? 20000 : 5000);
        options.start_within = milliseconds(20000);
        options.elastic = elastic;
        options.pause_limit = milliseconds(60000);
        Job job(std::make_unique<Membership>(std::move(options)));
        body(job);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!first_error) first_error = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace

void with_job(int size, const std::function<void(Job&)>& body, int on_each) {
  for_ranks(size, on_each, false, [&](Job& job) {
    body(job);
    const bool left = job.membership()->group().status().state == CommState::kClosed;
    if (!left) job.leave();
  });
}

void with_elastic_job(int size, const std::function<void(Job&)>& body) {
  for_ranks(size, 1, true, body);
}

}  // namespace reigen
