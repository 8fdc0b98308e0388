#include "dist/group/gloo_group.h"

#include "dist/group/gloo_exchange.h"
#include "dist/group/queued_group.h"

namespace reigen {
namespace {

constexpr std::chrono::milliseconds kLeaveWithin{10'000};

class GlooGroup : public QueuedGroup {
 public:
  GlooGroup(const MeshOptions& options, KeyValue& store, int64_t epoch)
      : QueuedGroup(options.rank, options.size, epoch),
        mesh_(options, store),
        exchange_(mesh_, options.rank, options.size, options.machines) {}

  ~GlooGroup() override {
    mesh_.fail(CommStatus::closed(""));
    stop_queue();
  }

  void close(CommStatus why) override {
    end(why);
    mesh_.fail(why);
  }

  // The mesh notices a broken connection also between operations.
  CommStatus status() const override {
    const CommStatus ended = QueuedGroup::status();
    return ended.ok() ? mesh_.status() : ended;
  }

  CommStatus leave() override {
    drain();
    if (CommStatus before = status(); !before.ok()) return before;
    CommStatus left = mesh_.leave(kLeaveWithin);
    close(CommStatus::closed("left"));
    return left;
  }

 protected:
  CommStatus carry_out(const Operation& operation, CommCounter& counter) override {
    try {
      exchange_.carry_out(operation, counter);
      return {};
    } catch (const MeshFailure& failure) {
      return failure.status;
    }
  }

 private:
  GlooMesh mesh_;
  GlooExchange exchange_;
};

}  // namespace

std::unique_ptr<Group> make_gloo_group(const MeshOptions& options, KeyValue& store, int64_t epoch) {
  return std::make_unique<GlooGroup>(options, store, epoch);
}

}  // namespace reigen
