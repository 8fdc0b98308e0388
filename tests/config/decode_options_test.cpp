// The options of beam search and of translate: defaults, spellings and contradictions.
#include "config/decode_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace reigen {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TranslateOptions translate_options(const std::vector<std::string>& args) {
  TranslateOptions options;
  Schema schema("translate", "");
  describe(schema, options);
  schema.parse(args);
  options.given = schema.given_keys();
  return options;
}

std::string translate_error(const std::vector<std::string>& args) {
  try {
    resolve(translate_options(args));
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

TEST(DecodeOptions, HaveShortAndLongSpellings) {
  const TranslateOptions options = translate_options(
      {"--model", "run", "--beam", "8", "--decode.alpha", "1.5", "--decode.max-ratio=3"});
  EXPECT_EQ(options.decode.beam, 8);
  EXPECT_EQ(options.decode.alpha, 1.5);
  EXPECT_EQ(options.decode.max_ratio, 3);
  EXPECT_EQ(options.input, "-");
  EXPECT_EQ(options.output, "-");
}

TEST(DecodeOptions, RefuseABeamOutsideItsLimits) {
  EXPECT_THAT(translate_error({"--model", "run", "--beam", "0"}), HasSubstr("64"));
  EXPECT_THAT(translate_error({"--model", "run", "--beam", "65"}), HasSubstr("64"));
  EXPECT_EQ(translate_error({"--model", "run", "--beam", "64"}), "no error");
}

TEST(TranslateOptions, RefuseMoreTranslationsThanTheBeam) {
  EXPECT_THAT(translate_error({"--model", "run", "--nbest", "5"}),
              AllOf(HasSubstr("--nbest 5"), HasSubstr("--beam 4")));
  EXPECT_EQ(translate_error({"--model", "run", "--nbest", "5", "--beam", "5"}), "no error");
}

TEST(TranslateOptions, SampleAsManyTranslationsAsAskedFor) {
  EXPECT_EQ(resolve(translate_options({"--model", "run", "--sample", "--nbest", "9"})).decode.beam,
            9);
  EXPECT_THAT(translate_error({"--model", "run", "--sample", "--beam", "2"}), HasSubstr("--nbest"));
  for (const std::string option : {"--temperature", "--top-k", "--top-p", "--seed"}) {
    EXPECT_THAT(translate_error({"--model", "run", option, "1"}), HasSubstr("--sample")) << option;
    EXPECT_EQ(translate_error({"--model", "run", option, "1", "--sample"}), "no error");
  }
}

TEST(TranslateOptions, AskForTheChoiceOfTheHostOnlyWhereItIsNeeded) {
  EXPECT_TRUE(resolve(translate_options({"--model", "run"})).decode.plain());
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--sample"},
                                               {"--min-length", "1"},
                                               {"--no-repeat-ngram", "3"},
                                               {"--prefix", "file"}}) {
    std::vector<std::string> args = {"--model", "run"};
    args.insert(args.end(), more.begin(), more.end());
    EXPECT_FALSE(resolve(translate_options(args)).decode.plain()) << more[0];
  }
}

}  // namespace
}  // namespace reigen
