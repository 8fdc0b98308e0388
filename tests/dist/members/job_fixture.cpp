#include "dist/members/job_fixture.h"

#include <exception>
#include <mutex>
#include <thread>

#include "base/format.h"

namespace reigen {

void with_job(int size, const std::function<void(Job&)>& body, int on_each) {
  using std::chrono::milliseconds;
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
        options.silence = milliseconds(5000);
        options.start_within = milliseconds(20000);
        Job job(std::make_unique<Membership>(std::move(options)));
        body(job);
        const bool left = job.membership()->group().status().state == CommState::kClosed;
        if (!left) job.leave();
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!first_error) first_error = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace reigen
