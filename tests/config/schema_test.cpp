// A small option table with one option of each kind, read from YAML and the command line and shown
// on the help page.
#include "config/schema.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using Args = std::vector<std::string>;

enum class Colour { kRed, kGreen };

struct Settings {
  std::string path;
  std::string output;
  int64_t seed = 1;
  double rate = 0.5;
  bool verify = true;
  bool overwrite = false;
  Colour colour = Colour::kGreen;
  int64_t size = 32'000;
  std::vector<std::vector<std::string>> inputs;
};

// The schema is bound to `settings`.
class SchemaTest : public testing::Test {
 protected:
  SchemaTest() {
    schema.option("path", settings.path, "PATH", "where to look").positional();
    schema.option("output", settings.output, "DIR", "where to write").required();
    schema.option("seed", settings.seed, "another seed, another run", 0, 1'000'000);
    schema.option("rate", settings.rate, "share | of it", 0, 1);
    schema.option("verify", settings.verify, "check everything");
    schema.option("overwrite", settings.overwrite, "replace DIR");
    schema.choice("model.colour", settings.colour, "which one",
                  {{"red", Colour::kRed}, {"green", Colour::kGreen}});
    schema.option("model.size", settings.size, "how large", 64, 1'000'000).flag("size");
    auto assign = [this](const Json& value) {
      settings.inputs.clear();
      for (const auto& item : value) settings.inputs.push_back(item);
    };
    schema.custom({.key = "input",
                   .value_name = "FILE [FILE]",
                   .help = "what to read",
                   .many = true,
                   .assign = assign,
                   .current = [this] { return Json(settings.inputs); }});
    schema.example("reigen try --output out");
  }

  bool parse(const Args& args) { return schema.parse(args); }

  std::string error_of(const Args& args) {
    try {
      schema.parse(args);
    } catch (const ConfigError& e) {
      return e.what();
    }
    ADD_FAILURE() << "the arguments were accepted";
    return "";
  }

  std::string yaml_error_of(const std::string& text) {
    try {
      schema.parse_yaml(text, "run.yaml");
    } catch (const ConfigError& e) {
      return e.what();
    }
    ADD_FAILURE() << "accepted: " << text;
    return "";
  }

  Settings settings;
  Schema schema{"try", "Tries things."};
};

TEST_F(SchemaTest, TakesAValueAfterASpaceOrAnEqualsSign) {
  EXPECT_TRUE(parse({"--output", "a", "--seed=7", "--rate", "0.25", "--model.colour=red"}));
  EXPECT_EQ(settings.output, "a");
  EXPECT_EQ(settings.seed, 7);
  EXPECT_EQ(settings.rate, 0.25);
  EXPECT_EQ(settings.colour, Colour::kRed);
}

TEST_F(SchemaTest, AValueMayContainEqualsSigns) {
  parse({"--output=a=b=c"});
  EXPECT_EQ(settings.output, "a=b=c");
}

TEST_F(SchemaTest, SecretsAreListedAndLeftOutOfTheArguments) {
  std::string token;
  schema.option("page.token", token, "TEXT", "a secret").flag("token").secret();
  const Args args = {"--output", "a", "--token", "one", "--page.token=two=2", "--seed", "7"};
  EXPECT_TRUE(schema.parse(args));
  EXPECT_EQ(token, "two=2");
  EXPECT_EQ(schema.secrets_given(), (Args{"one", "two=2"}));
  EXPECT_EQ(schema.without_secrets(args), (Args{"--output", "a", "--seed", "7"}));
}

TEST_F(SchemaTest, KnowsTheShortSpelling) {
  parse({"--output", "a", "--size", "100"});
  EXPECT_EQ(settings.size, 100);
  parse({"--output", "a", "--model.size", "200"});
  EXPECT_EQ(settings.size, 200);
}

TEST_F(SchemaTest, ReadsLargeNumbersWithUnderscores) {
  parse({"--output", "a", "--seed", "1_000_000"});
  EXPECT_EQ(settings.seed, 1'000'000);
}

TEST_F(SchemaTest, TheLastOfTwoValuesCounts) {
  parse({"--output", "a", "--seed", "1", "--seed", "2"});
  EXPECT_EQ(settings.seed, 2);
}

TEST_F(SchemaTest, TurnsSwitchesOnAndOff) {
  parse({"--output", "a", "--overwrite", "--no-verify"});
  EXPECT_TRUE(settings.overwrite);
  EXPECT_FALSE(settings.verify);
  parse({"--output", "a", "--overwrite=false", "--verify=yes"});
  EXPECT_FALSE(settings.overwrite);
  EXPECT_TRUE(settings.verify);
}

TEST_F(SchemaTest, AnOptionDoesNotSwallowTheArgumentAfterItsValue) {
  parse({"--output", "a", "data"});
  EXPECT_EQ(settings.output, "a");
  EXPECT_EQ(settings.path, "data");
}

TEST_F(SchemaTest, ASwitchDoesNotSwallowTheArgumentAfterIt) {
  parse({"--output", "a", "--overwrite", "data"});
  EXPECT_TRUE(settings.overwrite);
  EXPECT_EQ(settings.path, "data");
}

TEST_F(SchemaTest, OnlySwitchesCanBeNegated) {
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "unknown option --no-seed",
                      error_of({"--output", "a", "--no-seed"}));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "unknown option --no-verify=false",
                      error_of({"--output", "a", "--no-verify=false"}));
  EXPECT_TRUE(settings.verify);
}

TEST_F(SchemaTest, TakesAPositionalArgumentOnce) {
  parse({"data", "--output", "a"});
  EXPECT_EQ(settings.path, "data");
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "unexpected argument 'more'",
                      error_of({"more", "--output", "a"}));
}

TEST_F(SchemaTest, CollectsEachOccurrenceOfAListOption) {
  parse({"--input", "a", "b", "--output", "o", "--input=c", "d"});
  EXPECT_EQ(settings.inputs, (std::vector<Args>{{"a", "b"}, {"c", "d"}}));
}

TEST_F(SchemaTest, ReadsYamlNestedOrWithDots) {
  schema.parse_yaml(
      "output: a\n"
      "verify: no\n"
      "model:\n"
      "  colour: red\n"
      "  size: 1_000\n",
      "run.yaml");
  EXPECT_EQ(settings.output, "a");
  EXPECT_FALSE(settings.verify);
  EXPECT_EQ(settings.colour, Colour::kRed);
  EXPECT_EQ(settings.size, 1000);
  schema.parse_yaml("model.size: 2000\n", "run.yaml");
  EXPECT_EQ(settings.size, 2000);
}

TEST_F(SchemaTest, AnEmptyYamlFileChangesNothing) {
  Json before = schema.current();
  schema.parse_yaml("# nothing yet\n", "run.yaml");
  EXPECT_EQ(schema.current(), before);
}

TEST_F(SchemaTest, TheCommandLineTakesPrecedenceOverYamlInAnyOrder) {
  TempDir dir;
  write_text(dir.path("run.yaml"), "output: yaml\nseed: 5\ninput: [[x, y], [z]]\nverify: false\n");
  parse({"--seed", "6", "--input", "a", "--verify", "--config", dir.path("run.yaml")});
  EXPECT_EQ(settings.output, "yaml");
  EXPECT_EQ(settings.seed, 6);
  EXPECT_EQ(settings.inputs, (std::vector<Args>{{"a"}})) << "a list is replaced as a whole";
  EXPECT_TRUE(settings.verify);
}

TEST_F(SchemaTest, ALaterYamlFileReplacesAnEarlierOne) {
  TempDir dir;
  write_text(dir.path("a.yaml"), "output: a\nseed: 1\n");
  write_text(dir.path("b.yaml"), "seed: 2\n");
  parse({"--config=" + dir.path("a.yaml"), "--config", dir.path("b.yaml")});
  EXPECT_EQ(settings.output, "a");
  EXPECT_EQ(settings.seed, 2);
}

TEST_F(SchemaTest, AMissingYamlFileIsAConfigErrorThatNamesIt) {
  EXPECT_EQ(error_of({"--config", "/no/such.yaml"}),
            "--config /no/such.yaml: No such file or directory");
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "--config needs a value", error_of({"--config"}));
}

TEST_F(SchemaTest, YamlMustBeAMap) {
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "`key: value`", yaml_error_of("- a\n- b\n"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "`key: value`", yaml_error_of("just text\n"));
}

TEST_F(SchemaTest, SuggestsTheNearestOptionForATypo) {
  EXPECT_EQ(
      error_of({"--outptu", "a"}),
      "unknown option --outptu (did you mean --output?); `reigen try --help` lists all options");
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "did you mean --config?", error_of({"--confg=x"}));
}

TEST_F(SchemaTest, SuggestsNothingForAnUnrelatedName) {
  EXPECT_EQ(error_of({"--learning-rate", "1"}),
            "unknown option --learning-rate; `reigen try --help` lists all options");
}

TEST_F(SchemaTest, SuggestsTheNearestKeyForATypoInYaml) {
  EXPECT_EQ(yaml_error_of("sede: 1\n"), "run.yaml: unknown key 'sede' (did you mean 'seed'?)");
  EXPECT_EQ(yaml_error_of("model:\n  sise: 1\n"),
            "run.yaml: unknown key 'model.sise' (did you mean 'model.size'?)");
  EXPECT_EQ(yaml_error_of("something-else: 1\n"), "run.yaml: unknown key 'something-else'");
}

TEST_F(SchemaTest, AValueOutOfRangeIsNamedWithTheLimit) {
  EXPECT_EQ(error_of({"--seed", "-5"}), "--seed: '-5' cannot be used: must be from 0 to 1000000");
  EXPECT_EQ(error_of({"--rate=1.5"}), "--rate: '1.5' cannot be used: must be from 0 to 1");
  EXPECT_EQ(yaml_error_of("model: {size: 63}"),
            "run.yaml: model.size: '63' cannot be used: must be from 64 to 1000000");
}

TEST_F(SchemaTest, AcceptsBothEndsOfARange) {
  parse({"--output", "a", "--seed", "0", "--rate", "1", "--size", "64"});
  parse({"--output", "a", "--seed", "1000000", "--rate", "0", "--size", "1000000"});
  EXPECT_EQ(settings.seed, 1'000'000);
  EXPECT_EQ(settings.rate, 0);
}

TEST_F(SchemaTest, AValueOfTheWrongTypeIsNamedWithTheExpectedForm) {
  const std::string whole = "cannot be used: expected a whole number from 0 to 1000000";
  for (const char* bad : {"", "x", "1x", "1.5", "0x10", "1e3", "99999999999999999999"}) {
    EXPECT_EQ(error_of({std::string("--seed=") + bad}),
              "--seed: '" + std::string(bad) + "' " + whole);
  }
  for (const char* bad : {"", "x", "1x", "nan", "inf", "1e999"}) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "expected a number from 0 to 1",
                        error_of({std::string("--rate=") + bad}));
  }
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "expected true or false",
                      error_of({"--verify=perhaps"}));
  EXPECT_EQ(error_of({"--model.colour", "blue"}),
            "--model.colour: 'blue' cannot be used: expected red or green");
  EXPECT_EQ(yaml_error_of("seed: [1, 2]"),
            "run.yaml: seed: '[\"1\",\"2\"]' cannot be used: expected a single value");
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "expected a single value", yaml_error_of("seed:\n"));
}

TEST_F(SchemaTest, AValueThatIsNotUtf8IsAnErrorLikeAnyOther) {
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "--seed: '\xFF' cannot", error_of({"--seed", "\xFF"}));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "cannot be used", yaml_error_of("seed: [\"\xC3(\"]"));
}

TEST_F(SchemaTest, AMissingValueIsAnErrorThatNamesTheExpectedForm) {
  EXPECT_EQ(error_of({"--output"}), "--output needs a value (DIR)");
  EXPECT_EQ(error_of({"--output", "--overwrite"}), "--output needs a value (DIR)");
}

TEST_F(SchemaTest, ARequiredOptionMustBeGivenOnTheCommandLineOrInYaml) {
  EXPECT_EQ(error_of({"data"}),
            "--output is required (where to write); `reigen try --help` shows the usage");
  schema.parse_yaml("output: a\n", "run.yaml");
  EXPECT_TRUE(parse({}));
}

TEST(SchemaRequired, AMissingPositionalIsNamed) {
  Schema schema("look", "Looks.");
  std::string path;
  schema.option("path", path, "PATH", "where to look").positional().required();
  try {
    schema.parse(Args{});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ConfigError& e) {
    EXPECT_STREQ(e.what(),
                 "PATH is required (where to look); `reigen look --help` shows the usage");
  }
}

TEST(SchemaRequired, AnEmptyListDoesNotCount) {
  Schema schema("look", "Looks.");
  Json seen;
  schema.custom({.key = "train",
                 .value_name = "FILE",
                 .many = true,
                 .assign = [&seen](const Json& value) { seen = value; },
                 .current = [] { return Json(); }});
  schema.required();
  schema.parse_yaml("train: []\n", "run.yaml");
  EXPECT_THROW(schema.parse(Args{}), ConfigError);
  schema.parse_yaml("train: [a]\n", "run.yaml");
  EXPECT_TRUE(schema.parse(Args{}));
}

TEST(SchemaSection, MayHaveTheNameOfAShortSpelling) {
  Schema schema("look", "Looks.");
  std::string file;
  int64_t size = 1;
  schema.option("vocab.file", file, "FILE", "which").flag("vocab");
  schema.option("vocab.size", size, "how large", 1, 100);
  schema.parse_yaml("vocab:\n  size: 7\n  file: a.model\n", "run.yaml");
  EXPECT_EQ(size, 7);
  EXPECT_EQ(file, "a.model");
  schema.parse(Args{"--vocab", "b.model"});
  EXPECT_EQ(file, "b.model");
}

TEST_F(SchemaTest, HelpTakesPrecedenceOverErrors) {
  EXPECT_FALSE(parse({"--help"}));
  EXPECT_FALSE(parse({"-h"}));
  EXPECT_FALSE(parse({"--seed", "1", "--help"}));
}

TEST_F(SchemaTest, HelpShowsEveryOptionWithItsDefaultAndLimits) {
  const std::string help = schema.help();
  for (const char* shown : {"Usage: reigen try [options] PATH\n",
                            "Tries things.\n",
                            "  PATH ",
                            "  --output DIR ",
                            "where to write (required)",
                            "  --seed N ",
                            "(0 to 1000000; default 1)",
                            "  --rate X ",
                            "(0 to 1; default 0.5)",
                            "  --[no-]verify ",
                            "check everything (default true)",
                            "  --overwrite ",
                            "replace DIR (default false)",
                            "\nmodel:\n",
                            "  --model.colour NAME ",
                            "(red or green; default green)",
                            "  --size N ",
                            "(64 to 1000000; default 32000)",
                            "  --input FILE [FILE] ",
                            "  --config FILE.yaml ",
                            "\nExamples:\n",
                            "  reigen try --output out\n"}) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, shown, help);
  }
}

TEST_F(SchemaTest, HelpFitsIn100Columns) {
  bool flag = false;
  schema.option("long", flag,
                std::string(30, 'x') + " " + std::string(30, 'y') + " and so on, " +
                    "word by word, until it has to be wrapped more than once");
  schema.option("an-option-with-a-very-long-name-indeed", flag, "short");
  const std::string help = schema.help();
  for (size_t at = 0, end; at < help.size(); at = end + 1) {
    end = help.find('\n', at);
    EXPECT_LE(end - at, 100u) << help.substr(at, end - at);
  }
}

TEST_F(SchemaTest, MarkdownListsEveryOption) {
  const std::string page = schema.markdown();
  for (const char* row :
       {"## `reigen try`\n", "Tries things.\n", "    reigen try --output out\n",
        "| `path` | `PATH` |  |  | where to look |\n",
        "| `output` | `--output DIR` | `required` |  | where to write |\n",
        "| `seed` | `--seed N` | `1` | 0 to 1000000 | another seed, another run |\n",
        "| `rate` | `--rate X` | `0.5` | 0 to 1 | share \\| of it |\n",
        "| `verify` | `--[no-]verify` | `true` |  | check everything |\n",
        "| `overwrite` | `--overwrite` | `false` |  | replace DIR |\n",
        "| `model.colour` | `--model.colour NAME` | `green` | red or green | which one |\n",
        "| `model.size` | `--size N` | `32000` | 64 to 1000000 | how large |\n",
        "| `input` | `--input FILE [FILE]` |  |  | what to read |\n"}) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, row, page);
  }
}

TEST_F(SchemaTest, CurrentIsEveryValueNestedBySection) {
  parse({"data", "--output", "a", "--input", "x", "y", "--rate", "1", "--no-verify"});
  EXPECT_EQ(one_line(schema.current()),
            R"({"path":"data","output":"a","seed":1,"rate":1.0,"verify":false,"overwrite":false,)"
            R"("model":{"colour":"green","size":32000},"input":[["x","y"]]})");
}

TEST_F(SchemaTest, AShorthandSetsOtherOptionsAndIsNoValueItself) {
  schema.custom({.key = "model.both",
                 .flag = "both",
                 .value_name = "N",
                 .help = "seed and size at once",
                 .assign =
                     [this](const Json& value) {
                       settings.seed = settings.size = parse_integer(scalar(value), 64, 1000);
                     },
                 .current = nullptr});
  parse({"--output", "a", "--both", "100", "--size", "200"});
  EXPECT_EQ(settings.seed, 100);
  EXPECT_EQ(settings.size, 200);
  schema.parse_yaml("model: {both: 300}\n", "run.yaml");
  EXPECT_EQ(settings.size, 300);
  EXPECT_FALSE(schema.current().at("model").contains("both"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "--both N", schema.help());
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "| `model.both` |", schema.markdown());
}

TEST(Schema, AnOptionOfTheCommandLineIsRefusedInFiles) {
  std::string command;
  Schema schema("train", "Trains.");
  schema.option("eval.command", command, "COMMAND", "a program").command_line_only();
  EXPECT_THROW(schema.parse_yaml("eval:\n  command: rm\n", "a.yaml"), ConfigError);
  schema.parse_yaml("eval:\n  command: \"\"\n", "a.yaml");
  schema.parse_yaml("eval:\n  command: rm\n", "a.yaml", Schema::UnknownKeys::kIgnore);
  EXPECT_EQ(command, "");
  EXPECT_FALSE(schema.recorded().contains("eval"));
  schema.parse(std::vector<std::string>{"--eval.command", "true"});
  EXPECT_EQ(command, "true");
}

TEST(Schema, SomeValuesOfAnOptionAreRefusedInFiles) {
  std::string place;
  Schema schema("train", "Trains.");
  schema.option("copy-to", place, "PLACE", "a place").command_line_only_if("command:");
  EXPECT_THROW(schema.parse_yaml("copy-to: \"command:rm\"\n", "a.yaml"), ConfigError);
  EXPECT_EQ(place, "");
  schema.parse_yaml("copy-to: /copy\n", "a.yaml");
  EXPECT_EQ(place, "/copy");
  schema.parse(std::vector<std::string>{"--copy-to", "command:true"});
  EXPECT_EQ(place, "command:true");
}

TEST(Schema, ARecordGivesNoOptionThatIsNotRecorded) {
  std::string program = "none";
  std::string place;
  bool page = false;
  int64_t size = 1;
  Schema schema("train", "Trains.");
  schema.option("program", program, "PATH", "a program").command_line_only();
  schema.option("copy-to", place, "PLACE", "a place").command_line_only_if("command:");
  schema.option("page", page, "a page").unrecorded();
  schema.option("size", size, "a size", 1, 9);
  const std::string record = "program: rm\ncopy-to: \"command:rm\"\npage: true\nsize: 2\n";
  for (const auto unknown : {Schema::UnknownKeys::kRefuse, Schema::UnknownKeys::kIgnore}) {
    schema.parse_recorded(record, "config.yaml", unknown);
    EXPECT_EQ(program, "none");
    EXPECT_EQ(place, "");
    EXPECT_FALSE(page);
    EXPECT_EQ(size, 2);
  }
}

}  // namespace
}  // namespace reigen
