// The entry point: finds the command, parses its options, turns errors into exit codes.
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>

#include "base/build.h"
#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/process/own_program.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "config/command_pages.h"
#include "config/suggest.h"
#include "dist/launch/hosts/host_launch.h"
#include "observe/record/log_reference.h"
#include "report/live/page_process.h"
#include "train/directory/checkpoint_copy.h"
#include "train/directory/run_directory.h"

namespace reigen {
namespace {

std::span<char*> g_arguments;  // the memory that `ps` shows

// Overwrites secrets that were given on the command line.
void hide_from_ps(const std::vector<std::string>& secrets) {
  for (const std::string& secret : secrets) {
    for (char* argument : g_arguments) {
      const size_t size = std::strlen(argument);
      if (!secret.empty() && std::string_view(argument, size).ends_with(secret)) {
        std::memset(argument + size - secret.size(), 'x', secret.size());
      }
    }
  }
}

// A table of options, with the struct that it is bound to.
struct Described {
  std::shared_ptr<void> options;
  Schema schema;
};

struct Command {
  std::string name;
  std::string summary;
  std::function<void(std::span<const std::string>)> run;
  std::function<Described()> described;
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
    hide_from_ps(schema.secrets_given());
    if constexpr (requires { options.same_for_all; }) {
      options.same_for_all = schema.same_for_all_workers();
      options.arguments = schema.without_secrets(args);
    }
    if constexpr (requires { options.given; }) options.given = schema.given_keys();
    if constexpr (requires { recorded_config(options); }) {
      // An existing run has recorded options; the command line takes precedence over them.
      if (const auto file = recorded_config(options)) {
        const Options given = options;
        options = {};
        options.same_for_all = given.same_for_all;
        options.arguments = given.arguments;
        Schema again(name, summary);
        describe(again, options);
        parse_recorded(again, options, read_own_file(*file, kMostConfigBytes), *file,
                       Schema::UnknownKeys::kRefuse);
        again.parse(args);
        options.given = again.given_keys();
        drop_chosen_limit(options, given.given);
      }
    }
    body(options);
  };
  auto described = [=] {
    auto options = std::make_shared<Options>();
    Schema schema(name, summary);
    describe(schema, *options);
    return Described{options, schema};
  };
  return {name, summary, run, described};
}

struct CommandGroup {
  std::string purpose;
  std::vector<Command> commands;
};

std::vector<CommandGroup> command_groups() {
  return {
      {"Prepare text",
       {command("corpus", "Write the built-in English-German demo corpus as text.", run_corpus),
        command("prepare", "Clean parallel text, train a vocabulary and write a dataset.",
                run_prepare),
        command("inspect", "Show the content of a dataset, a run or a checkpoint.", run_inspect)}},
      {"Train",
       {command("doctor", "Measure hosts and network, and predict the time and cost of a run.",
                run_doctor),
        command("schedule", "Show a learning-rate schedule as a table and a drawing.",
                run_schedule),
        command("train", "Train a model, or resume a run.", run_train),
        command("attach", "Show the output of a run that was started with --detach.", run_attach),
        command("restore", "Make a run from the second copy of its last checkpoint.", run_restore),
        command("continue", "Let a paused worker of an elastic job continue without the others.",
                run_continue),
        command("join", "Add this machine to a running elastic job.", run_join)}},
      {"Watch and analyse a run",
       {command("top", "Show a run in the terminal, updated every second.", run_top),
        command("dashboard", "Show a run as a live page in the browser.", run_dashboard),
        command("report", "Report on a run: progress, speed, bottleneck and advice.", run_report)}},
      {"Use a model",
       {command("translate", "Translate text with a trained model.", run_translate),
        command("evaluate", "Score translations with BLEU and chrF, and compare two systems.",
                run_evaluate),
        command("score", "Print the log-probability of given translations.", run_score),
        command("average", "Average checkpoints of a run into one model.", run_average),
        command("quantize", "Round a model's weights to int8, for translating on a CPU.",
                run_quantize),
        command("import", "Read a Hugging Face MarianMT or Pegasus model.", run_import),
        command("export", "Write a model for Hugging Face transformers or CTranslate2.",
                run_export)}},
      {"Try it",
       {command("demo", "Prepare, train, evaluate and translate on the built-in corpus.",
                run_demo)}},
  };
}

std::vector<Command> all_commands() {
  std::vector<Command> all;
  for (CommandGroup& group : command_groups()) {
    for (Command& c : group.commands) all.push_back(std::move(c));
  }
  return all;
}

std::string overview() {
  std::string out =
      "Reigen trains neural machine translation models, on one machine or many.\n\n"
      "Usage: reigen COMMAND [options]\n";
  for (const CommandGroup& group : command_groups()) {
    out += format("\n{}:\n", group.purpose);
    for (const Command& c : group.commands) out += format("  {:<10} {}\n", c.name, c.summary);
  }
  out += format("\nHelp:\n  {:<10} {}\n", "help", "Show this page, or the page of a command.");
  out +=
      "\nTo start: `reigen demo --output demo` trains a small model in a few minutes. With text "
      "of\n"
      "your own, run `reigen prepare`, then `reigen train`, then `reigen translate`.\n\n"
      "`reigen COMMAND --help` lists the options of a command. Options can also be given in a "
      "YAML\n"
      "file with --config FILE.yaml. `reigen --version` shows version and build.\n\n"
      "Exit codes: 0 success, 1 internal error, 2 wrong option or configuration, 3 bad data,\n"
      "4 bad checkpoint, 5 communication failed, 6 device failed, 7 cannot read or write a file,\n"
      "8 training diverged, 9 preempted, 130 interrupted.\n";
  return out;
}

std::string options_page(const std::vector<Command>& commands) {
  std::string out =
      "# Options\n\nGenerated from the option tables in `src/config/` by `make docs`; do not "
      "edit.\n"
      "Every option can be given on the command line as `--key value` or `--key=value`, by the\n"
      "short spelling shown, or by its YAML key in a file given with `--config FILE.yaml`. The\n"
      "command line takes precedence. `--no-key` or `--key=false` turns a switch off.\n";
  for (const auto& c : commands) out += "\n" + c.described().schema.markdown();
  return out;
}

// Calls `page` with the tables of all commands.
std::string page_of_all(const std::vector<Command>& commands,
                        const std::function<std::string(std::span<const Schema>)>& page) {
  std::vector<Described> described;
  std::vector<Schema> schemas;
  for (const Command& c : commands) {
    described.push_back(c.described());
    schemas.push_back(described.back().schema);
  }
  return page(schemas);
}

const Command& find_command(const std::vector<Command>& commands, const std::string& name) {
  std::vector<std::string> names = {"help"};
  for (const auto& c : commands) {
    if (c.name == name) return c;
    names.push_back(c.name);
  }
  auto near = nearest(name, names);
  throw ConfigError(format("unknown command '{}'{}; `reigen help` lists all commands", name,
                           near ? format(" (did you mean '{}'?)", *near) : ""));
}

std::optional<uint64_t> restore_copy(const std::string& place, const SshOptions& ssh,
                                     const std::string& run) {
  return restore_if_copied({parse_copy_target(place), ssh}, run);
}

void run(std::span<const std::string> args) {
  if (args.empty()) return print(overview());
  const std::vector<Command> commands = all_commands();
  const std::string& name = args[0];
  auto rest = args.subspan(1);
  if (name == "--version" || name == "version") {
    print(version_text());
  } else if (name == "help" && !rest.empty() && rest[0] == "--markdown") {
    print(options_page(commands));
  } else if (name == "help" && !rest.empty() && rest[0] == "--measurement-log") {
    print(log_reference());
  } else if (name == "help" && !rest.empty() && rest[0] == "--man") {
    print(page_of_all(commands, [](std::span<const Schema> all) {
      return man_page(all, version_line(), overview());
    }));
  } else if (name == "help" && rest.size() == 2 && rest[0] == "--completion") {
    print(page_of_all(commands,
                      [&](std::span<const Schema> all) { return completion(all, rest[1]); }));
  } else if (name == "help" && !rest.empty() && rest[0] != "help") {
    std::vector<std::string> help = {"--help"};
    find_command(commands, rest[0]).run(help);
  } else if (name == "help" || name == "--help" || name == "-h") {
    print(overview());
  } else if (name == kAgentCommand) {  // started over ssh by `train --hosts`
    run_host_agent(version_line(), last_checkpoint, restore_copy);
  } else if (name == kPageCommand) {  // started by `train --dashboard`
    run_page_process(rest);
  } else {
    find_command(commands, name).run(rest);
  }
}

// GNU OpenMP's threads spin for milliseconds when they wait for each other, which on a busy machine
// costs two thirds of the speed (docs/design/training.md). The library reads its spin count when it
// is loaded, before any code of ours, so the program sets it and executes itself again, once.
void spin_less(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("GOMP_SPINCOUNT", "1000", 1);
  execv(own_program().file.c_str(), argv);  // if it fails, training is only slower
}

}  // namespace
}  // namespace reigen

int main(int argc, char** argv) {
  prctl(PR_SET_NAME, "reigen");  // in the relocatable archive, the kernel sees the loader's name
  // Before --detach forks: a launcher names the process that it became.
  reigen::own_program();
  reigen::spin_less(argv);
  std::vector<std::string> args(argv + 1, argv + argc);
  reigen::g_arguments = {argv + 1, argv + argc};
  reigen::catch_interrupts();
  try {
    reigen::run(args);
    return static_cast<int>(reigen::ExitCode::kOk);
  } catch (const std::exception& e) {
    const reigen::Failure failure = reigen::failure_of(e);
    reigen::log_error(failure.message);
    return static_cast<int>(failure.code);
  }
}
