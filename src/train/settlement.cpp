#include "train/settlement.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "base/format.h"
#include "base/json/json.h"
#include "base/json/json_view.h"

namespace reigen {
namespace {

constexpr Settled kAllSettled[] = {Settled::kKept, Settled::kRolledForward, Settled::kRepeated};

Json json_of(const Position& p) {
  return {{"stateless", p.stateless},
          {"committed", p.committed},
          {"began", p.began},
          {"reduced", p.reduced},
          {"forming", p.forming},
          {"evaluated", p.evaluated},
          {"decay", p.decay},
          {"checkpoint", p.checkpoint},
          {"unsaved", p.unsaved},
          {"votes", {p.votes.interrupted, p.votes.time_over, p.votes.decay_steps, p.votes.save}},
          {"state", p.state},
          {"workers", p.workers}};
}

Position position_of(const Json& json) {
  const JsonView view(json);
  Position p;
  p.stateless = json.at("stateless").get<bool>();
  p.committed = view.at("committed");
  p.began = json.at("began").get<bool>();
  p.reduced = json.at("reduced").get<bool>();
  p.forming = json.at("forming").get<std::string>();
  p.evaluated = view.at("evaluated");
  p.decay = view.at("decay");
  p.checkpoint = view.at("checkpoint");
  p.unsaved = json.at("unsaved").get<bool>();
  const auto votes = json.at("votes").get<std::vector<double>>();
  p.votes = {votes.at(0), votes.at(1), votes.at(2), votes.at(3)};
  p.state = json.at("state").get<std::string>();
  p.workers = json.at("workers").get<std::vector<int>>();
  return p;
}

bool less_far(const Position& a, const Position& b) {
  const auto key = [](const Position& p) { return std::tuple(p.evaluated, p.decay, p.checkpoint); };
  return key(a) < key(b);
}

}  // namespace

const char* text_of(Settled settled) {
  switch (settled) {
    case Settled::kRolledForward:
      return "rolled_forward";
    case Settled::kRepeated:
      return "repeated";
    case Settled::kKept:
      break;
  }
  return "kept";
}

// A worker commits a step only when all have reduced its gradient. So where all members hold a
// reduced gradient, a lost worker may have committed that step; where one does not, none has.
Settlement settle(std::span<const Position> all) {
  Settlement out;
  std::vector<Position> positions;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].stateless) {
      out.stateless.push_back(static_cast<int>(rank));
    } else {
      positions.push_back(all[rank]);
    }
  }
  if (positions.empty()) throw CommError("no worker has the training state");
  for (const Position& p : positions) out.step = std::max(out.step, p.committed);
  const bool all_reduced = std::ranges::all_of(positions, [&](const Position& p) {
    return p.committed == out.step && p.reduced && p.forming == positions.front().forming;
  });
  if (all_reduced) {
    ++out.step;
    out.settled = Settled::kRolledForward;
    return out;
  }
  for (const Position& p : positions) {
    if (p.committed < out.step) {
      if (p.committed + 1 < out.step || !p.reduced) {
        throw CommError(
            format("a worker is at step {} without the gradient of step {}, which "
                   "others have committed; resume from the last checkpoint",
                   p.committed, out.step));
      }
      out.settled = Settled::kRolledForward;
    } else {
      if (p.began && out.settled == Settled::kKept) out.settled = Settled::kRepeated;
      if (!out.furthest || less_far(*out.furthest, p)) out.furthest = p;
    }
  }
  // Something worth a checkpoint may be known to some members only, such as a new run directory.
  for (const Position& p : positions) {
    if (!out.furthest || p.committed < out.step) continue;
    if (p.checkpoint == out.furthest->checkpoint && p.unsaved) out.furthest->unsaved = true;
  }
  return out;
}

std::string to_text(const Position& position) { return one_line(json_of(position)); }

Position position_from(const std::string& text) { return position_of(Json::parse(text)); }

std::string to_text(const Settlement& s) {
  return one_line(Json{{"step", s.step},
                       {"settled", text_of(s.settled)},
                       {"stateless", s.stateless},
                       {"furthest", s.furthest ? json_of(*s.furthest) : Json()}});
}

Settlement settlement_from(const std::string& text) {
  const Json json = Json::parse(text);
  Settlement s;
  s.step = JsonView(json).at("step");
  s.stateless = json.at("stateless").get<std::vector<int>>();
  const auto settled = json.at("settled").get<std::string>();
  for (const Settled one : kAllSettled) {
    if (settled == text_of(one)) s.settled = one;
  }
  if (!json.at("furthest").is_null()) s.furthest = position_of(json.at("furthest"));
  return s;
}

}  // namespace reigen
