#include "observe/sample/timeline.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace reigen {
namespace {

constexpr const char* kOwn = "step";

double in_microseconds(double seconds) { return std::round(seconds * 1e9) / 1e3; }

Json metadata(const char* kind, int rank, size_t track, const std::string& name) {
  return {{"ph", "M"}, {"name", kind}, {"pid", rank}, {"tid", track}, {"args", {{"name", name}}}};
}

}  // namespace

void Timeline::at_step(uint64_t step) {
  std::lock_guard lock(mutex_);
  step_ = step;
}

bool Timeline::on() const {
  std::lock_guard lock(mutex_);
  return step_ >= first_ && step_ <= last_;
}

void Timeline::mark() { mark_ = Clock::now(); }

void Timeline::lap(const char* name) {
  const Clock::time_point now = Clock::now();
  add(kOwn, name, std::exchange(mark_, now), now);
}

void Timeline::add(const char* track, std::string name, Clock::time_point begin,
                   Clock::time_point end, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (step_ < first_ || step_ > last_) return;
  events_.push_back({track, std::move(name), seconds(begin), seconds(end), step_, bytes});
}

void Timeline::add_chain(const char* track, uint64_t step, const Spans& spans) {
  std::lock_guard lock(mutex_);
  if (step < first_ || step > last_) return;
  if (chain_end_ == 0) {
    chain_end_ = seconds(Clock::now());
    for (const auto& span : spans) chain_end_ -= span.second;
  }
  for (const auto& [name, length] : spans) {
    events_.push_back({track, name, chain_end_, chain_end_ + length, step, 0});
    chain_end_ += length;
  }
}

Json Timeline::events(int rank, const std::string& name, double ahead) const {
  std::lock_guard lock(mutex_);
  std::map<std::string, size_t> tracks = {{kOwn, 0}};
  for (const Event& event : events_) tracks.emplace(event.track, tracks.size());
  Json list = Json::array();
  list.push_back(metadata("process_name", rank, 0, name));
  for (const auto& [track, id] : tracks) list.push_back(metadata("thread_name", rank, id, track));
  for (const Event& event : events_) {
    Json args = {{"step", event.step}};
    if (event.bytes > 0) args["bytes"] = event.bytes;
    list.push_back({{"ph", "X"},
                    {"name", event.name},
                    {"cat", event.track},
                    {"pid", rank},
                    {"tid", tracks.at(event.track)},
                    {"ts", in_microseconds(event.begin - ahead)},
                    {"dur", in_microseconds(event.end - event.begin)},
                    {"args", std::move(args)}});
  }
  return list;
}

}  // namespace reigen
