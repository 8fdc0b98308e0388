// The entry point: finds the command, parses its options, turns errors into exit codes.
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <functional>

#include "base/error.h"
#include "base/files.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "config/suggest.h"
#include "dist/launch/host_launch.h"

namespace reigen {
namespace {

struct Command {
  std::string name;
  std::string summary;
  std::function<void(std::span<const std::string>)> run;
  std::function<std::string()> markdown;
};

template <class Options>
Command command(const std::string& name, const std::string& summary, void (*body)(const Options&)) {
  auto run = [=](std::span<const std::string> args) {
    Options options;
    Schema schema(name, summary);
    describe(schema, options);
    if (!schema.parse(args)) {
      print(schema.help());
      return;
    }
    if constexpr (requires { options.as_given; }) {
      options.as_given = schema.current();
      options.arguments.assign(args.begin(), args.end());
    }
    if constexpr (requires { recorded_config(options); }) {
      // What exists already was made with options of its own; the command line stands above them.
      if (const auto file = recorded_config(options)) {
        const Options given = options;
        options = {};
        options.as_given = given.as_given;
        options.arguments = given.arguments;
        Schema again(name, summary);
        describe(again, options);
        again.parse_yaml(read_file(*file), *file);
        again.parse(args);
      }
    }
    body(options);
  };
  auto markdown = [=] {
    Options options;
    Schema schema(name, summary);
    describe(schema, options);
    return schema.markdown();
  };
  return {name, summary, run, markdown};
}

std::vector<Command> all_commands() {
  return {
      command("corpus", "Write the built-in English-German demo corpus.", run_corpus),
      command("prepare", "Turn raw parallel text into shards to train on.", run_prepare),
      command("inspect", "Say what a prepared directory or a checkpoint holds.", run_inspect),
      command("train", "Train a model, or go on training one.", run_train),
      command("attach", "Show a run that was started with --detach.", run_attach),
      command("doctor", "Measure hosts and links, and say what a run would take here.", run_doctor),
      command("report", "Say what a run did, what limited it and whether it is trained.",
              run_report),
      command("top", "Show a run in the terminal while it goes on.", run_top),
      command("dashboard", "Show a run as a live page in a browser.", run_dashboard),
      command("translate", "Translate lines of text with a trained model.", run_translate),
      command("evaluate", "Score translations: BLEU and chrF, with intervals and a comparison.",
              run_evaluate),
      command("average", "Average checkpoints of one model into a better one.", run_average),
      command("schedule", "Show the learning-rate curve as a table and a drawing.", run_schedule),
      command("demo", "Run the whole path on the built-in corpus.", run_demo),
  };
}

std::string overview(const std::vector<Command>& commands) {
  std::string out =
      "Reigen trains neural machine translation models, on one machine or many.\n\n"
      "Usage: reigen COMMAND [options]\n\nCommands:\n";
  for (const auto& c : commands) out += format("  {:<10} {}\n", c.name, c.summary);
  out += format("  {:<10} {}\n", "help", "Show this page, or that of a command.");
  out +=
      "\n`reigen COMMAND --help` shows a command's options; each can also stand in a YAML file\n"
      "given with --config. `reigen --version` names the build.\n\n"
      "Exit codes: 0 done, 1 internal error, 2 wrong option or configuration, 3 bad data,\n"
      "4 bad checkpoint, 5 communication failed, 6 device failed, 7 cannot read or write,\n"
      "8 training diverged, 130 interrupted.\n";
  return out;
}

std::string options_page(const std::vector<Command>& commands) {
  std::string out =
      "# Options\n\nGenerated from the option tables in `src/config/` by `make docs`; do not "
      "edit.\n"
      "Every option can be given on the command line as `--key value` or `--key=value`, by the\n"
      "short spelling shown, or under its YAML key in a file given with `--config FILE.yaml`; the\n"
      "command line wins. A switch can be turned off with `--no-key` or `--key=false`.\n";
  for (const auto& c : commands) out += "\n" + c.markdown();
  return out;
}

const Command& find_command(const std::vector<Command>& commands, const std::string& name) {
  std::vector<std::string> names = {"help"};
  for (const auto& c : commands) {
    if (c.name == name) return c;
    names.push_back(c.name);
  }
  auto near = nearest(name, names);
  throw ConfigError(format("unknown command '{}'{}; `reigen help` lists all", name,
                           near ? format(", did you mean '{}'?", *near) : ""));
}

void run(std::span<const std::string> args) {
  const std::vector<Command> commands = all_commands();
  if (args.empty()) throw ConfigError("no command given; `reigen help` lists all");
  const std::string& name = args[0];
  auto rest = args.subspan(1);
  if (name == "--version" || name == "version") {
    print(version_text());
  } else if (name == "help" && !rest.empty() && rest[0] == "--markdown") {
    print(options_page(commands));
  } else if (name == "help" && !rest.empty()) {
    std::vector<std::string> help = {"--help"};
    find_command(commands, rest[0]).run(help);
  } else if (name == "help" || name == "--help" || name == "-h") {
    print(overview(commands));
  } else if (name == kAgentCommand) {  // what `train --hosts` starts over ssh
    run_host_agent(version_line());
  } else {
    find_command(commands, name).run(rest);
  }
}

// GNU OpenMP's threads spin for milliseconds when they wait for each other, which on a machine that
// does anything else besides costs two thirds of the speed (docs/design/training.md). It reads how
// long when it is loaded, before any code of ours: so the program starts itself again, once.
void spin_less(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("GOMP_SPINCOUNT", "1000", 1);
  execv("/proc/self/exe", argv);  // when it cannot, things are only slower
}

}  // namespace
}  // namespace reigen

int main(int argc, char** argv) {
  reigen::spin_less(argv);
  std::vector<std::string> args(argv + 1, argv + argc);
  reigen::catch_interrupts();
  try {
    reigen::run(args);
    return static_cast<int>(reigen::ExitCode::kOk);
  } catch (const reigen::Error& e) {
    reigen::log_error(e.what());
    return static_cast<int>(e.code());
  } catch (const std::bad_alloc&) {
    reigen::log_error(
        "out of memory; train with a smaller --memory, prepare with fewer --threads or a smaller "
        "--shard-tokens");
    return static_cast<int>(reigen::ExitCode::kInternal);
  } catch (const std::exception& e) {
    reigen::log_error(reigen::format("internal error: {}; please report it", e.what()));
    return static_cast<int>(reigen::ExitCode::kInternal);
  }
}
