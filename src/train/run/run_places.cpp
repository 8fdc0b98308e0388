#include "train/run/run_places.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <tuple>

#include "base/error.h"
#include "base/file/files.h"
#include "base/json/json.h"
#include "config/copy_target.h"
#include "model/checkpoint.h"
#include "train/run/take_over.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;

// The directory at the place of copies; empty for a command, and for a place that is none.
std::string directory_of_copies(const std::string& copy_to) {
  if (copy_to.empty()) return "";
  const CopyTarget target = parse_copy_target(copy_to);
  return target.kind == CopyTarget::Kind::kCommand ? "" : target.place;
}

bool is_of_run(const CheckpointFacts& facts, const RunPlaces& places) {
  const auto id = facts.training.find(kRunIdInCheckpoint);
  if (id == facts.training.end() || !id->is_string()) return false;
  return std::any_of(places.begin(), places.end(),
                     [&](const WrittenRun& place) { return place.id == id->get<std::string>(); });
}

FoundCopy copy_at_place(const RunPlaces& places, const std::string& copy_to) {
  const uint64_t step = step_of_copy(copy_to);
  if (step == 0) return {};
  const std::string path = directory_of_copies(copy_to) + "/" + RunDirectory::name_of(step);
  try {
    if (!is_of_run(read_checkpoint_facts(path), places)) return {};
  } catch (const Error&) {  // it was replaced just now, or is none
    return {};
  }
  return {.copy = {.checkpoint = step}, .path = path};
}

FoundCopy earlier_directory(const WrittenRun& place, const std::string& path) {
  if (!sees_run(path, place.id)) return {};
  try {
    const uint64_t step = is_checkpoint(path + "/last") ? last_checkpoint(path).value_or(0) : 0;
    return {.copy = {.checkpoint = step, .logged = last_logged_step(path)},
            .path = path,
            .earlier = place};
  } catch (const Error&) {  // a damaged log cannot be continued
    return {};
  }
}

}  // namespace

std::string to_text(const RunPlaces& places) {
  Json list = Json::array();
  for (const WrittenRun& place : places) list.push_back({{"id", place.id}, {"path", place.path}});
  return one_line(list);
}

RunPlaces run_places_in(const std::string& text) {
  RunPlaces places;
  for (const Json& entry : Json::parse(text)) {
    places.push_back({entry.at("id").get<std::string>(), entry.at("path").get<std::string>()});
  }
  return places;
}

std::string path_of_run(const RunPlaces& places, const std::string& own) {
  if (places.empty()) return "";
  const WrittenRun& now = places.back();
  for (const std::string& path : {now.path, own}) {
    if (sees_run(path, now.id)) return path;
  }
  return "";
}

FoundCopy newest_copy(const RunPlaces& places, const std::string& own, const std::string& copy_to) {
  FoundCopy newest;
  const auto consider = [&](FoundCopy found) {
    if (newest.copy < found.copy) newest = std::move(found);
  };
  for (size_t i = places.size(); i-- > 1;) {
    const WrittenRun& place = places[i - 1];
    consider(earlier_directory(place, place.path));
    if (own != place.path) consider(earlier_directory(place, own));
  }
  consider(copy_at_place(places, copy_to));
  return newest;
}

uint64_t step_of_copy(const std::string& copy_to) {
  const std::string place = directory_of_copies(copy_to);
  return place.empty() ? 0 : last_checkpoint(place).value_or(0);
}

bool adopt_checkpoint(const RunDirectory& run, const std::string& checkpoint, uint64_t step) {
  const std::string path = run.checkpoint(step);
  const std::string aside = path + ".partial";
  std::error_code error;
  fs::create_directory(aside, error);
  for (fs::directory_iterator files(checkpoint, error), end; !error && files != end;
       files.increment(error)) {
    if (files->symlink_status().type() != fs::file_type::regular) {
      error = std::make_error_code(std::errc::not_supported);
    } else {
      fs::create_hard_link(files->path(), aside + "/" + files->path().filename().string(), error);
    }
    if (error) break;
  }
  if (!error) fs::rename(aside, path, error);
  if (error) {
    std::error_code ignored;
    fs::remove_all(aside, ignored);
    return false;
  }
  run.link("last", step);
  return true;
}

}  // namespace reigen
