#include "dist/group/memory_store.h"

namespace reigen {

void MemoryStore::set(const std::string& key, const std::string& value) {
  std::lock_guard lock(mutex_);
  values_[key] = value;
  changed_.notify_all();
}

std::optional<std::string> MemoryStore::get(const std::string& key,
                                            std::chrono::milliseconds within) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, within, [&] { return values_.contains(key); })) return std::nullopt;
  return values_[key];
}

}  // namespace reigen
