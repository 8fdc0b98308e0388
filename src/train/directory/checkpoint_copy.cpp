#include "train/directory/checkpoint_copy.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/printable.h"
#include "config/yaml.h"
#include "dist/launch/child_process.h"
#include "model/checkpoint.h"
#include "train/directory/run_directory.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSums = "SHA256SUMS";

// The marker says that the directory is a place of copies: nothing is removed from any other.
constexpr const char* kPut = R"sh(set -eu
mkdir -p "$place"
cd "$place"
if [ ! -e .reigen-copy ]; then
  [ -z "$(ls -A)" ] || { echo "$place contains other files; name an empty directory" >&2; exit 1; }
  echo "a copy of a checkpoint by reigen" > .reigen-copy
fi
rm -rf -- .step-*.partial
intact() {
  echo "$sum  SHA256SUMS" | sha256sum -c --status && sha256sum -c --quiet SHA256SUMS >&2
}
if (cd "$name" && intact) 2> /dev/null; then exit 0; fi
mkdir ".$name.partial"
cd ".$name.partial"
tar -xf -
intact || { echo "the copy differs from the checkpoint" >&2; exit 1; }
sync -- ./* .
cd ..
rm -rf -- "$name"
mv -- ".$name.partial" "$name"
ln -sfn -- "$name" .last.new
mv -T -- .last.new last
sync -- .
for old in step-*; do
  [ "$old" = "$name" ] || rm -rf -- "$old"
done
)sh";

constexpr const char* kFind = R"sh(set -eu
[ ! -L "$place/last" ] || readlink "$place/last"
)sh";

constexpr const char* kGet = R"sh(set -eu
cd "$place"
[ -L last ] || { echo "$place has no copy" >&2; exit 1; }
exec tar -cf - -- "$(readlink last)"
)sh";

// Without owners and set-user-ID bits, which root would restore.
constexpr const char* kUnpack =
    "\"$@\" | tar --no-same-owner --no-same-permissions -C \"$0\" -xf -";

struct Ended {
  int code = 0;
  std::string output;
  std::string errors;
};

constexpr size_t kMostText = size_t{1} << 20;

Ended run_child(const std::vector<std::string>& command, const std::function<bool()>& stop) {
  ChildSpec spec;
  spec.without_secrets = true;
  spec.command = command;
  ChildProcess child(spec);  // ended with all of its own children, however this returns
  Ended ended;
  while (true) {
    const auto code = child.ended();
    if (child.out().open() && !read_available(child.out(), ended.output, kMostText)) {
      child.close_out();
    }
    if (child.err().open() && !read_available(child.err(), ended.errors, kMostText)) {
      child.close_err();
    }
    if (ended.output.size() + ended.errors.size() > 2 * kMostText) {
      throw IoError(format("{} writes endless text", command.front()));
    }
    if (code) {
      ended.code = *code;
      return ended;
    }
    if (stop()) throw IoError("the copy was given up");
    pollfd waiting[] = {{child.out().fd(), POLLIN, 0}, {child.err().fd(), POLLIN, 0}};
    constexpr int kTick = 100;
    poll(waiting, 2, kTick);
  }
}

// Throws IoError with the text that the command wrote to stderr.
std::string output_of(const std::vector<std::string>& command, const std::function<bool()>& stop) {
  Ended ended = run_child(command, stop);
  if (ended.code == 0) return std::move(ended.output);
  constexpr size_t kMostShown = 500;
  std::string why = ended.errors.substr(0, kMostShown);
  while (why.ends_with('\n')) why.pop_back();
  for (size_t at = 0; (at = why.find('\n', at)) != std::string::npos;) why.replace(at, 1, "; ");
  if (why.empty()) why = format("{} ended with status {}", command.front(), ended.code);
  throw IoError(printable_line(why));
}

using Variables = std::vector<std::pair<std::string, std::string>>;

// The command that runs a script at the place, with these variables.
std::vector<std::string> at_place(const CopyPlace& place, Variables variables,
                                  const std::string& script) {
  variables.emplace_back("place", place.target.place);
  std::string text;
  for (const auto& [key, value] : variables) text += key + "=" + shell_quoted(value) + "\n";
  text += script;
  if (place.target.kind == CopyTarget::Kind::kDirectory) return {"sh", "-c", text};
  return ssh_command(place.ssh, place.target.host, format("exec sh -c {}", shell_quoted(text)));
}

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<std::string> user_command(const CopyPlace& place,
                                      const std::vector<std::string>& arguments) {
  return joined({"sh", "-c", place.target.place + " \"$@\"", "sh"}, arguments);
}

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

void put_by_command(const CopyPlace& place, const std::string& checkpoint, const std::string& name,
                    const std::function<bool()>& stop) {
  const std::string sums = checkpoint + "/" + kSums;
  const std::string expected = read_file(sums) + format("{}  {}\n", sha256_of_file(sums), kSums);
  output_of(user_command(place, {"put", checkpoint, name}), stop);
  const std::string found = output_of(user_command(place, {"sums", name}), stop);
  const std::vector<std::string> arrived = sorted_lines(found);
  for (const std::string& line : sorted_lines(expected)) {
    if (std::binary_search(arrived.begin(), arrived.end(), line)) continue;
    throw IoError(format("the copy differs from the checkpoint: `{} sums {}` does not print \"{}\"",
                         place.target.place, name, line));
  }
  output_of(user_command(place, {"keep", name}), stop);
}

void fetch(const CopyPlace& place, const std::string& folder) {
  const auto stop = [] {
    check_interrupt();
    return false;
  };
  if (place.target.kind == CopyTarget::Kind::kCommand) {
    output_of(user_command(place, {"get", folder}), stop);
    return;
  }
  const std::vector<std::string> unpack = {"sh", "-c", kUnpack, folder};
  output_of(joined(unpack, at_place(place, {}, kGet)), stop);
}

// The one checkpoint in `folder`, verified. A link in it could lead anywhere.
CheckpointFacts check_fetched(const std::string& folder, std::string& name) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!name.empty()) throw CheckpointError("the copy is more than one checkpoint");
    name = entry.path().filename();
  }
  const std::string path = folder + "/" + name;
  if (name.empty() || !fs::is_directory(fs::symlink_status(path))) {
    throw CheckpointError("the copy is no checkpoint");
  }
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.symlink_status().type() == fs::file_type::regular) continue;
    throw CheckpointError(format("{}: is not a regular file", entry.path().string()));
  }
  CheckpointFacts facts = read_checkpoint_facts(path);
  for (const CheckpointFile& file : facts.files) verify_checkpoint_file(path, file);
  if (name != RunDirectory::name_of(facts.step) || !facts.training.contains("options")) {
    throw CheckpointError(
        format("{}: was not written by `reigen train --checkpoint.copy-to`", path));
  }
  return facts;
}

}  // namespace

void put_copy(const CopyPlace& place, const std::string& checkpoint, const std::string& name,
              const std::function<bool()>& stop) {
  if (place.target.kind == CopyTarget::Kind::kCommand) {
    return put_by_command(place, checkpoint, name, stop);
  }
  const std::string sum = sha256_of_file(checkpoint + "/" + kSums);
  const std::vector<std::string> pack = {"sh", "-c", "tar -C \"$0\" -cf - . | \"$@\"", checkpoint};
  output_of(joined(pack, at_place(place, {{"name", name}, {"sum", sum}}, kPut)), stop);
}

std::optional<uint64_t> find_copy(const CopyPlace& place) {
  const auto stop = [] {
    check_interrupt();
    return false;
  };
  std::string name = output_of(at_place(place, {}, kFind), stop);
  while (name.ends_with('\n')) name.pop_back();
  return RunDirectory::step_of(name);
}

std::optional<uint64_t> restore_if_copied(const CopyPlace& place, const std::string& run) {
  if (place.target.kind != CopyTarget::Kind::kCommand && !find_copy(place)) return std::nullopt;
  return restore_run(place, run);
}

uint64_t restore_run(const CopyPlace& place, const std::string& run) {
  if (path_exists(run)) {
    throw ConfigError(format("{}: already exists; choose a different --run", run));
  }
  StagedDirectory staged(run, false);
  const std::string folder = staged.file("checkpoints");
  fs::create_directory(folder);
  fetch(place, folder);
  std::string name;
  const CheckpointFacts facts = check_fetched(folder, name);
  FileWriter config(staged.file("config.yaml"));
  config.write(to_yaml(facts.training.at("options")));
  config.close();
  if (symlink(("checkpoints/" + name).c_str(), staged.file("last").c_str()) != 0) {
    throw IoError(format("{}: cannot write: {}", staged.file("last"), errno_text(errno)));
  }
  staged.commit();
  fs::remove(run + "/" + StagedDirectory::kMarker);
  return facts.step;
}

}  // namespace reigen
